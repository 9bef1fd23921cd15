package limited

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// response is the output of a process that calls Answer.
type response[T any] struct {
	Result  T      `json:"result,omitempty"`
	Code    string `json:"code,omitempty"` // of an error
	Message string `json:"message,omitempty"`
	Memory  bool   `json:"memory,omitempty"` // the error is ErrMemory
}

// Ask runs a command line whose main calls Serve and Answer, and returns the result for a request.
// It returns an error of the work as a tools.Error. Numbers in values of the type any are
// json.Number.
func Ask[T any](ctx context.Context, command []string, request any, input io.Reader) (result T, err error) {
	head, err := json.Marshal(request)
	if err != nil {
		return result, err
	}
	var stdout bytes.Buffer
	err = Run(ctx, command, io.MultiReader(bytes.NewReader(append(head, '\n')), input), &stdout)
	if ctx.Err() != nil || errors.Is(err, ErrMemory) {
		return result, err
	} else if err != nil {
		return result, fmt.Errorf("run a separate process: %w", err)
	}
	var res response[T]
	dec := json.NewDecoder(&stdout)
	dec.UseNumber()
	switch err := dec.Decode(&res); {
	case err != nil:
		return result, fmt.Errorf("decode the output of a separate process: %w", err)
	case res.Memory:
		return result, ErrMemory
	case res.Code != "":
		return result, &tools.Error{Code: res.Code, Message: res.Message}
	}
	return res.Result, nil
}

// Answer reads a request and its input as Ask writes them, and writes what work returns.
func Answer[Q, T any](stdin io.Reader, stdout io.Writer, work func(request Q, input io.Reader) (T, error)) error {
	in := bufio.NewReaderSize(stdin, 256<<10)
	head, err := in.ReadBytes('\n')
	var request Q
	if err == nil {
		err = json.Unmarshal(head, &request)
	}
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var res response[T]
	if res.Result, err = work(request, in); err != nil {
		res = response[T]{Code: tools.CodeOf(err), Message: err.Error(), Memory: errors.Is(err, ErrMemory)}
	}
	data, err := jsonform.Encode(res)
	if err == nil {
		_, err = stdout.Write(data)
	}
	return err
}
