package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Operation is one thing that a client can ask a worker to do. The service, the schemas, the
// page and the commands read this definition.
type Operation struct {
	// Name is unique; it is an identifier.
	Name string
	// Subject follows <prefix>.rpc. Each word in capitals stands for any token. The server's
	// permissions decide who may publish there, so the session is part of it.
	Subject string
	Summary string
	// Changes is set if the operation changes something. Then its request may have no unknown
	// fields: a misspelt one must not be ignored.
	Changes bool
	// Alone is set if the operation needs no worker: it runs with the rights of the client, too.
	Alone bool
	// Tool is the tool of models that takes the same arguments, if there is one.
	Tool string
	// In and Out are the types of the request and of the answer.
	In, Out reflect.Type

	answer func(context.Context, Env, []byte) (any, error)
}

// Env is what an operation works on.
type Env struct {
	Bus    *bus.Bus
	Reader *offload.Reader // only a worker has one
	// Tokens are those of the subject after <prefix>.rpc.
	Tokens []string
}

// session is the token of the session in the subject, "*" if the subject has none.
func (e Env) session() string {
	if len(e.Tokens) < 3 {
		return "*"
	}
	return e.Tokens[1]
}

// Op is an operation with the types of its request and of its answer.
type Op[In, Out any] struct {
	Operation
	run func(context.Context, Env, In) (Out, error)
}

// Define returns an operation. Without a subject, no worker offers it: it runs in the process of the
// client, with the rights of the login there. Other packages define operations, too.
func Define[In, Out any](name, subject, summary string, run func(context.Context, Env, In) (Out, error)) *Op[In, Out] {
	op := &Op[In, Out]{Operation{Name: name, Subject: subject, Summary: summary, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out]()}, run}
	op.answer = func(ctx context.Context, env Env, body []byte) (any, error) {
		var in In
		if err := op.decode(body, &in); err != nil {
			return nil, err
		}
		return run(ctx, env, in)
	}
	op.Alone = subject == ""
	return op
}

// OnBus is the run of an operation that needs no more than its request.
func OnBus[In, Out any](run func(context.Context, *bus.Bus, In) (Out, error)) func(context.Context, Env, In) (Out, error) {
	return func(ctx context.Context, env Env, in In) (Out, error) { return run(ctx, env.Bus, in) }
}

// Changing marks an operation that changes something.
func (op *Op[In, Out]) Changing() *Op[In, Out] {
	op.Changes = true
	return op
}

// alone marks an operation that needs no worker.
func (op *Op[In, Out]) alone() *Op[In, Out] {
	op.Alone = true
	return op
}

// like marks an operation that takes the arguments of a tool.
func (op *Op[In, Out]) like(tool string) *Op[In, Out] {
	op.Tool = tool
	return op
}

// decode decodes a request. Like a call of its tool, an operation accepts numbers as strings and
// aliases.
func (op *Operation) decode(body []byte, in any) error {
	body = orEmpty(body)
	if op.Changes {
		if err := tools.DecodeStrict(body, in); err != nil {
			return badRequest(err)
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		return badRequest(d.Decode(in))
	}
	err := json.Unmarshal(body, in)
	if read, ok := in.(*ReadRequest); ok && (err != nil || read.ArtifactID == "") { // beside the fields that the tool lacks
		if json.Unmarshal(offload.CoerceArguments(op.Tool, body), read) == nil {
			return nil
		}
	}
	return badRequest(err)
}

// AnswerTimeout is the time in which a worker must answer.
const AnswerTimeout = 40 * time.Second

// ErrNoAnswer means that a worker has not answered within AnswerTimeout.
var ErrNoAnswer = fmt.Errorf("the worker did not answer within %s", AnswerTimeout)

// Ask asks a worker, and returns its answer as JSON. If none answers, or only older ones
// that do not know the operation, one that needs no worker runs in this process. A session that the subject of the operation does not contain is ignored.
func (op *Operation) Ask(ctx context.Context, b *bus.Bus, session string, in any) ([]byte, error) {
	tokens := op.tokens(session)
	if op.Subject != "" {
		ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
		defer cancel()
		answer, err := Request(ctx, b, b.RPC(tokens...), in)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		if !op.Alone || !errors.Is(err, nats.ErrNoResponders) && tools.CodeOf(err) != CodeUnknown {
			return answer, err
		}
	}
	body, err := bus.Encode(in)
	if err != nil {
		return nil, err
	}
	out, err := op.answer(ctx, Env{Bus: b, Tokens: tokens}, body)
	if err != nil {
		return nil, err
	}
	return encodeAnswer(out)
}

// tokens are those of the subject for a session, after <prefix>.rpc.
func (op *Operation) tokens(session string) []string {
	return strings.Split(strings.Replace(op.Subject, "SESSION", tools.TokenOf(session), 1), ".")
}

// Do is Ask with the answer decoded.
func (op *Op[In, Out]) Do(ctx context.Context, b *bus.Bus, session string, in In) (out Out, err error) {
	body, err := op.Ask(ctx, b, session, in)
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	return out, err
}

// Here runs the operation in this process, for programs that may read and write the streams: it
// works without a worker.
func (op *Op[In, Out]) Here(ctx context.Context, b *bus.Bus, session string, in In) (Out, error) {
	return op.run(ctx, Env{Bus: b, Tokens: op.tokens(session)}, in)
}

// CodeUnknown is the error code if a worker does not know an operation, because it is older than
// the client.
const CodeUnknown = "unknown_operation"

// find returns the operation of an endpoint that a request is for.
func (e endpoint) find(tokens []string) (*Operation, error) {
	function := tokens[len(tokens)-1]
	var known []string
	for _, op := range e.operations {
		name := op.Subject[strings.LastIndexByte(op.Subject, '.')+1:]
		if len(e.operations) == 1 && strings.ToUpper(name) == name || name == function {
			return op, nil
		}
		known = append(known, name)
	}
	return nil, tools.Errorf(CodeUnknown, "unknown function %q; known are %s", tools.Excerpt(function, 80), strings.Join(known, ", "))
}

// check returns an error if the session in the subject of a request is no token.
func (op *Operation) check(tokens []string) error {
	for i, word := range strings.Split(op.Subject, ".") {
		if word == "SESSION" && !tools.IsToken(tokens[i]) {
			return tools.Errorf(tools.CodeInvalidArguments, "the session in the subject must be of the form %s", tools.TokenForm)
		}
	}
	return nil
}

func orEmpty(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}

// badRequest returns the error for a request that cannot be decoded, without Go terms.
func badRequest(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		return tools.Errorf(tools.CodeInvalidArguments, "%s is a %s; want %s", field, wrong.Value, jsonName(wrong.Type))
	}
	return tools.Errorf(tools.CodeInvalidArguments, "the request is not a JSON object of arguments: %v", err)
}

func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "an array"
	}
	return "a whole number"
}

// tokenOf returns the token of the id in a request, or an error if it names none.
func tokenOf(id, thing string) (string, error) {
	if id == "" {
		return "", tools.Errorf(tools.CodeInvalidArguments, "the request names no %s; give its id", thing)
	}
	return tools.TokenOf(id), nil
}
