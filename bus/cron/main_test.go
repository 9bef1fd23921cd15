package cron_test

import (
	"os"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

func TestMain(m *testing.M) { os.Exit(slow.RunWaiting(m)) }
