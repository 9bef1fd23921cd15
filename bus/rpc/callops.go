package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// callOperations submit calls. The session and the id of the subject apply; in the short form, the
// body names them.
func callOperations() []*Operation {
	return []*Operation{
		defineCall("callAndWait", "call.QUEUE.TOOL.SESSION.CALL", "Submit a call and wait for its result.", callAndWait),
		defineCall("callAndWaitShort", "call.QUEUE.TOOL", "Submit a call and wait for its result; only the body names the call.", callAndWait),
		defineCall("submit", "submit.QUEUE.TOOL.SESSION.CALL", "Submit a call.", submitOnly),
		defineCall("submitShort", "submit.QUEUE.TOOL", "Submit a call; only the body names it.", submitOnly),
	}
}

func defineCall[Out any](name, subject, summary string, run func(context.Context, *bus.Bus, string, tools.Call) (Out, error)) *Operation {
	op := &Operation{Name: name, Subject: subject, Summary: summary, Changes: true, In: reflect.TypeFor[tools.Call](), Out: reflect.TypeFor[Out]()}
	op.answer = func(ctx context.Context, env Env, body []byte) (any, error) {
		queue, call, err := decodeCall(env, body)
		if err != nil {
			return nil, err
		}
		out, err := run(ctx, env.Bus, queue, call)
		if errors.Is(err, bus.ErrFull) {
			err = tools.Errorf(CodeFull, "%v", err)
		}
		return out, err
	}
	if op.Out == reflect.TypeFor[json.RawMessage]() {
		op.Out = reflect.TypeFor[tools.ResultEvent]()
	}
	return op
}

// callAndWait answers with the result as it is stored.
func callAndWait(ctx context.Context, b *bus.Bus, queue string, call tools.Call) (json.RawMessage, error) {
	stored, err := submit(ctx, b, queue, call)
	if errors.Is(err, ErrPending) {
		return nil, tools.Errorf(tools.CodeTimeout, "no result after %s; the call is still queued or running, and its result will be published", callTimeout)
	}
	if dead, ok := errors.AsType[*DeadLetterError](err); ok {
		return nil, tools.Errorf(dead.Code, "%v", dead)
	}
	return stored.Body, err
}

func submitOnly(ctx context.Context, b *bus.Bus, queue string, call tools.Call) (Acceptance, error) {
	return Enqueue(ctx, b, queue, call)
}

// CodeFull is the error code if the calls stream is full.
const CodeFull = "full"

// decodeCall returns the call of a request. The session and the id of its subject apply.
func decodeCall(env Env, body []byte) (queue string, call tools.Call, err error) {
	tokens := env.Tokens // as those of a call, but for the first one
	subject := bus.CallSubject{Queue: tokens[1], Tool: tokens[2]}
	if len(tokens) > 3 {
		subject.Session, subject.ID = tokens[3], tokens[4]
	}
	for _, token := range tokens {
		if !tools.IsToken(token) {
			return "", call, tools.Errorf(tools.CodeInvalidCall, "invalid subject %q: queue, tool, session and id must be of the form %s",
				tools.Excerpt(env.Bus.RPC(strings.Join(tokens, ".")), 200), tools.TokenForm)
		}
	}
	call, err = tools.DecodeCall(orEmpty(body))
	if err != nil {
		return "", call, tools.Errorf(tools.CodeInvalidCall, "%v", err)
	}
	if call.Tool != "" && call.Tool != subject.Tool {
		return "", call, tools.Errorf(tools.CodeInvalidCall, "the call names the tool %q, but its subject names %q",
			tools.Excerpt(call.Tool, 80), tools.Excerpt(subject.Tool, 80))
	}
	call.Tool = subject.Tool
	if subject.ID != "" {
		err = task.Identify(&call, subject)
	}
	return subject.Queue, call, err
}
