package offload

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// TestMain lets tests start this binary as the process for the queries of a Reader.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == helperCommand {
		serve := map[string]func(context.Context, io.Reader, io.Writer) error{
			limited.JQ.Name: jq.Serve, limited.SQL.Name: sqlite.Serve, limited.Picture.Name: ServePicture,
		}[os.Args[2]]
		if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const helperCommand = "helper"

// newPool returns a pool whose work runs in separate processes.
func newPool() *limited.Pool {
	if env, err := exec.LookPath("env"); err == nil { // the race detector waits a second at each exit
		return limited.NewPool(env, "GORACE=atexit_sleep_ms=0", os.Args[0], helperCommand)
	}
	return limited.NewPool(os.Args[0], helperCommand)
}
