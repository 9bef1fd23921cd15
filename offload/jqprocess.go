package offload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// processTime is how much longer than its query a process may take: to start on a busy
// machine, and to write the results.
const processTime = 10 * time.Second

// jqRequest is the first line of the input of the process; the artifact follows.
type jqRequest struct {
	ArtifactID string `json:"artifact_id"`
	Query      string `json:"query"`
	Offset     int    `json:"offset,omitempty"`
	Media      string `json:"media,omitempty"`
	Size       int64  `json:"size"`
	// From is the byte at which the query continues. The input then is the first 8 MiB,
	// followed by the bytes from From on.
	From  int64         `json:"from,omitempty"`
	Limit int           `json:"limit"` // characters of results
	Time  time.Duration `json:"time"`
}

// jqResponse is the output of the process.
type jqResponse struct {
	*JQResult
	Code    string `json:"code,omitempty"` // of an error
	Message string `json:"message,omitempty"`
}

// ServeJQ runs one query of a Reader whose ReaderConfig.JQCommand started this
// process. It bounds the memory of the process, so it is for a main that does nothing
// else. After an error there is no output.
func ServeJQ(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := limited.Serve(maxJQHeap); err != nil {
		return fmt.Errorf("serve jq: %w", err)
	}
	in := bufio.NewReader(stdin)
	head, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("serve jq: read the request: %w", err)
	}
	var req jqRequest
	if err := json.Unmarshal(head, &req); err != nil {
		return fmt.Errorf("serve jq: read the request: %w", err)
	}
	res, err := runWithin(ctx, req, in)
	answer := jqResponse{JQResult: res}
	if err != nil {
		answer = jqResponse{Code: tools.CodeOf(err), Message: err.Error()}
	}
	data, err := jsonform.Encode(answer)
	if err == nil {
		_, err = stdout.Write(data)
	}
	return err
}

// runInProcess runs the query in a separate process.
func runInProcess(ctx context.Context, cfg ReaderConfig, req jqRequest, input io.Reader) (*JQResult, error) {
	head, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	// The process has its own timeout; this one is for a process that hangs.
	ctx, cancel := context.WithTimeoutCause(ctx, req.Time+processTime,
		tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s", tools.Excerpt(req.Query, 200), req.Time))
	defer cancel()
	var stdout bytes.Buffer
	err = limited.Run(ctx, cfg.JQCommand, io.MultiReader(bytes.NewReader(append(head, '\n')), input), &stdout)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case errors.Is(err, limited.ErrMemory):
		return nil, memoryError(req)
	case err != nil:
		return nil, fmt.Errorf("run jq in a separate process: %w", err)
	}
	var answer jqResponse
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("run jq in a separate process: decode its output: %w", err)
	}
	if answer.Code != "" {
		return nil, &tools.Error{Code: answer.Code, Message: answer.Message}
	}
	return answer.JQResult, nil
}
