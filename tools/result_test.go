package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestConstructors(t *testing.T) {
	cause := errors.New("secret cause")
	for name, tt := range map[string]struct {
		res  *tools.Result
		want string
	}{
		"NewToolResult": {tools.NewToolResult("a"), `{"for_llm":"a","silent":false,"is_error":false,"async":false}`},
		"SilentResult":  {tools.SilentResult("a"), `{"for_llm":"a","silent":true,"is_error":false,"async":false}`},
		"AsyncResult":   {tools.AsyncResult("a"), `{"for_llm":"a","silent":false,"is_error":false,"async":true}`},
		"ErrorResult":   {tools.ErrorResult("a").WithError(cause), `{"for_llm":"a","silent":false,"is_error":true,"async":false}`},
		"UserResult":    {tools.UserResult("a"), `{"for_llm":"a","for_user":"a","silent":false,"is_error":false,"async":false}`},
		"Failure":       {tools.Failure(tools.Errorf(tools.CodeTimeout, "late by %d", 3)), `{"for_llm":"late by 3","silent":false,"is_error":true,"async":false}`},
	} {
		got, err := json.Marshal(tt.res)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s = %s, %v; want %s", name, got, err, tt.want)
		}
	}
	if res := tools.ErrorResult("a").WithError(cause); res.Err != cause {
		t.Errorf("Err = %v", res.Err)
	}
}

func TestCodeOf(t *testing.T) {
	for want, err := range map[string]error{
		tools.CodeTimeout:    fmt.Errorf("fetch: %w", context.DeadlineExceeded),
		tools.CodeCancelled:  fmt.Errorf("fetch: %w", context.Canceled),
		tools.CodeNotFound:   fmt.Errorf("%w, %w", tools.Errorf(tools.CodeNotFound, "x"), context.Canceled),
		tools.CodeToolFailed: errors.New("x"),
	} {
		if got := tools.CodeOf(err); got != want {
			t.Errorf("CodeOf(%v) = %q, want %q", err, got, want)
		}
	}
	if got := tools.CodeOf(nil); got != tools.CodeToolFailed {
		t.Errorf("CodeOf(nil) = %q", got)
	}
}

func TestNewResultEvent(t *testing.T) {
	call := tools.Call{ID: "1", Session: "s", Tool: "t", Channel: "c", ChatID: "9"}
	for name, tt := range map[string]struct {
		res     *tools.Result
		outcome tools.Outcome
		code    string
	}{
		"completed":    {tools.NewToolResult("x"), tools.Completed, ""},
		"async":        {tools.AsyncResult("x"), tools.Async, ""},
		"failed":       {tools.ErrorResult("x"), tools.Failed, tools.CodeToolFailed},
		"failed async": {&tools.Result{Async: true, IsError: true}, tools.Failed, tools.CodeToolFailed},
		"timeout":      {tools.Failure(tools.Errorf(tools.CodeTimeout, "x")), tools.Timeout, tools.CodeTimeout},
		"cancelled":    {tools.Failure(context.Canceled), tools.Cancelled, tools.CodeCancelled},
		"unknown":      {tools.Failure(tools.Errorf(tools.CodeUnknownOutcome, "x")), tools.Unknown, tools.CodeUnknownOutcome},
		"unknown tool": {tools.Failure(tools.Errorf(tools.CodeUnknownTool, "x")), tools.Failed, tools.CodeUnknownTool},
	} {
		e := tools.NewResultEvent(call, tt.res)
		if e.ID != "1" || e.Session != "s" || e.Tool != "t" || e.Channel != "c" || e.ChatID != "9" || e.ForLLM != tt.res.ForLLM {
			t.Errorf("%s: %+v does not answer %+v", name, e, call)
		}
		if e.Outcome != tt.outcome || (e.Error == nil) != (tt.code == "") || e.Error != nil && (e.Error.Code != tt.code || e.Error.Message == "") {
			t.Errorf("%s: outcome %q, error %+v; want %q, %q", name, e.Outcome, e.Error, tt.outcome, tt.code)
		}
	}
}

func TestResultClose(t *testing.T) {
	var none *tools.Result
	with := &tools.Result{Output: tools.NewOutput(tools.OutputLimits{})}
	for _, res := range []*tools.Result{none, {}, with, with} {
		if err := res.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if _, err := with.Output.Write([]byte("x")); err == nil {
		t.Error("the output is open after Close")
	}
}
