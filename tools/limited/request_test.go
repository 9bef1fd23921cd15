package limited_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

type request struct {
	Do  string
	CPU time.Duration
}

type result struct{ Text, Number any }

// TestMain is the process that the tests ask if it has an argument.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "answer" {
		os.Exit(m.Run())
	}
	if err := limited.Serve(limited.JQ); err != nil {
		panic(err)
	}
	if err := limited.Answer(os.Stdin, os.Stdout, work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// works are more that a process can do.
var works = map[string]func(){}

func work(req request, input io.Reader) (*result, error) {
	if do := works[req.Do]; do != nil {
		do()
	}
	switch req.Do {
	case "read":
		text, err := io.ReadAll(input)
		return &result{string(text), json.Number("12345678901234567890")}, err
	case "refuse":
		return nil, tools.Errorf(tools.CodeInvalidArguments, "no")
	case "need memory":
		return nil, fmt.Errorf("here: %w", limited.ErrMemory)
	case "print":
		fmt.Print("no JSON")
	case "die":
		os.Exit(3)
	case "spin", "spin deaf":
		ctx, cancel := limited.Within(context.Background(), cmp.Or(req.CPU, time.Hour))
		defer cancel()
		for ctx.Err() == nil || req.Do == "spin deaf" {
		}
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("what?")
}

func ask(t *testing.T, do, input string) (*result, error) {
	t.Helper()
	return limited.Ask[*result](t.Context(), []string{os.Args[0], "answer"}, request{Do: do}, strings.NewReader(input))
}

// The result and each kind of error come back from the other process.
func TestAsk(t *testing.T) {
	t.Parallel()
	if res, err := ask(t, "read", "a\nb<"); err != nil || res.Text != "a\nb<" || res.Number != json.Number("12345678901234567890") {
		t.Errorf("%+v, %v", res, err)
	}
	refused, ok := errors.AsType[*tools.Error](func() error { _, err := ask(t, "refuse", ""); return err }())
	if !ok || refused.Code != tools.CodeInvalidArguments || refused.Message != "no" {
		t.Errorf("a refusal is %v", refused)
	}
	if _, err := ask(t, "need memory", ""); !errors.Is(err, limited.ErrMemory) {
		t.Errorf("a lack of memory is %v", err)
	}
	for _, do := range []string{"print", "die"} {
		if _, err := ask(t, do, ""); err == nil || !strings.Contains(err.Error(), "separate process") {
			t.Errorf("%s: %v", do, err)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("too slow")
	cancel(cause)
	if _, err := limited.Ask[*result](ended, []string{os.Args[0], "answer"}, request{Do: "read"}, strings.NewReader("")); !errors.Is(err, cause) {
		t.Errorf("the caller's end is %v", err)
	}
}

// A process that gets no request says so, and writes no result.
func TestAnswerBadRequests(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "{}", "no JSON\n", `{"Do":7}` + "\n"} {
		var out strings.Builder
		if err := limited.Answer(strings.NewReader(line), &out, work); err == nil || !strings.HasPrefix(err.Error(), "read the request: ") || out.Len() > 0 {
			t.Errorf("%q: %v, %q", line, err, out.String())
		}
	}
}
