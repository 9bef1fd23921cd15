package jq

import (
	"context"
	"io"

	"github.com/stevedore-bus/stevedore/tools/limited"
)

// request is the first line of the input of the process; the artifact follows.
type request struct {
	Source
	Query string `json:"query"`
	Skip  int64  `json:"skip,omitempty"` // results that earlier answers showed
}

// Serve runs one query of a Run whose Source.Command started this
// process. It bounds the memory of the process, so it is for a main that does nothing
// else. After an error there is no output.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := limited.Serve(limited.JQ); err != nil {
		return err
	}
	return limited.Answer(stdin, stdout, func(req request, input io.Reader) (*Result, error) {
		ctx, cancel := limited.Within(ctx, req.CPU)
		defer cancel()
		return runWithin(ctx, req, input)
	})
}
