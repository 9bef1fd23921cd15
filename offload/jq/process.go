package jq

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// processTime is how much longer than its query a process may take: to start on a busy
// machine, and to write the results.
const processTime = 10 * time.Second

// request is the first line of the input of the process; the artifact follows.
type request struct {
	ArtifactID string `json:"artifact_id"`
	Query      string `json:"query"`
	// Place is where the query continues. If that is not the start, the input is the first
	// 8 MiB of the artifact, followed by the bytes from the place on.
	Place cursor.Place  `json:"place"`
	Comma rune          `json:"comma,omitempty"`
	Size  int64         `json:"size"`
	Limit int           `json:"limit"` // characters of results
	Time  time.Duration `json:"time"`
}

// response is the output of the process.
type response struct {
	Result  *Result `json:"result,omitempty"`
	Code    string  `json:"code,omitempty"` // of an error
	Message string  `json:"message,omitempty"`
	Memory  bool    `json:"memory,omitempty"` // the error is errMemory
}

// Serve runs one query of a Run whose Source.Command started this
// process. It bounds the memory of the process, so it is for a main that does nothing
// else. After an error there is no output.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := limited.Serve(maxHeap); err != nil {
		return fmt.Errorf("serve jq: %w", err)
	}
	in := bufio.NewReader(stdin)
	head, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("serve jq: read the request: %w", err)
	}
	var req request
	if err := json.Unmarshal(head, &req); err != nil {
		return fmt.Errorf("serve jq: read the request: %w", err)
	}
	res, err := runWithin(ctx, req, in)
	answer := response{Result: res}
	if err != nil {
		answer = response{Code: tools.CodeOf(err), Message: err.Error(), Memory: errors.Is(err, errMemory)}
	}
	data, err := jsonform.Encode(answer)
	if err == nil {
		_, err = stdout.Write(data)
	}
	return err
}

// inProcess runs the query in a separate process.
func inProcess(ctx context.Context, command []string, req request, input io.Reader) (*Result, error) {
	head, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	// The process has its own timeout; this one is for a process that hangs.
	ctx, cancel := context.WithTimeoutCause(ctx, req.Time+processTime,
		tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s", tools.Excerpt(req.Query, 200), req.Time))
	defer cancel()
	var stdout bytes.Buffer
	err = limited.Run(ctx, command, io.MultiReader(bytes.NewReader(append(head, '\n')), input), &stdout)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case errors.Is(err, limited.ErrMemory):
		return nil, errMemory
	case err != nil:
		return nil, fmt.Errorf("run jq in a separate process: %w", err)
	}
	var answer response
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("run jq in a separate process: decode its output: %w", err)
	}
	if answer.Memory {
		return nil, errMemory
	}
	if answer.Code != "" {
		return nil, &tools.Error{Code: answer.Code, Message: answer.Message}
	}
	return answer.Result, nil
}
