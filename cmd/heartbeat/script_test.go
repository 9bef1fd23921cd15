package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stevedore-heartbeat": main})
}

// TestScripts runs testdata/*.txtar, each with its own server.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NATS_URL", bustest.Listen(t).URL())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits},
	})
}
