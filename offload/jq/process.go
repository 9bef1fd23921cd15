package jq

import (
	"context"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// request is the first line of the input of the process; the artifact follows.
type request struct {
	ArtifactID string         `json:"artifact_id"`
	Query      string         `json:"query"`
	Skip       int64          `json:"skip,omitempty"` // results that earlier answers showed
	Form       *describe.Form `json:"form,omitempty"`
	Size       int64          `json:"size"`
	Limit      int            `json:"limit"` // characters of results
	Time       time.Duration  `json:"time"`
}

// Serve runs one query of a Run whose Source.Command started this
// process. It bounds the memory of the process, so it is for a main that does nothing
// else. After an error there is no output.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := limited.Serve(maxHeap); err != nil {
		return err
	}
	return limited.Answer(stdin, stdout, func(req request, input io.Reader) (*Result, error) {
		return runWithin(ctx, req, input)
	})
}

// inProcess runs the query in a separate process.
func inProcess(ctx context.Context, command []string, req request, input io.Reader) (*Result, error) {
	// The process has its own timeout; this one is for a process that hangs.
	ctx, cancel := context.WithTimeoutCause(ctx, req.Time+limited.ProcessTime,
		tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s", tools.Excerpt(req.Query, 200), req.Time))
	defer cancel()
	return limited.Ask[*Result](ctx, command, req, input)
}
