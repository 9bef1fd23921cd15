package consume_test

import (
	"os"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

func TestMain(m *testing.M) { os.Exit(bustest.RunWaiting(m)) }
