package offload

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/offload/tables"
)

// TestMain lets tests start this binary as the process for the queries of a Reader.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == jqTestCommand {
		if err := jq.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == sqlTestCommand {
		if err := tables.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	jqTestCommand  = "jq-process"
	sqlTestCommand = "sql-process"
)
