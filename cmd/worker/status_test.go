package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/status"
)

// A report says once that no worker answers.
func TestStatusNamesAMissingWorkerOnce(t *testing.T) {
	problem := status.Problem{Code: status.NoWorker, Text: "No worker answers. Calls wait until one starts."}
	var out bytes.Buffer
	if err := printStatus(&out, status.Status{Problems: []status.Problem{problem}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "No worker answers"); n != 1 {
		t.Errorf("%d times in %s", n, out.String())
	}
}
