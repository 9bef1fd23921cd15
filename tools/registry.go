package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"
)

// Registry is the set of tools that a worker runs. It is safe for concurrent
// use.
type Registry struct {
	log zerolog.Logger

	mu    sync.RWMutex
	tools map[string]entry
}

type entry struct {
	tool   Tool
	def    Definition
	schema *jsonschema.Resolved
}

// NewRegistry returns an empty registry that logs the end of each call to log.
func NewRegistry(log zerolog.Logger) *Registry {
	return &Registry{log: log, tools: make(map[string]entry)}
}

// Register adds tools. It fails if a name is not a token or is registered already, or
// if a schema does not resolve.
func (r *Registry) Register(tools ...Tool) error {
	for _, tool := range tools {
		e, err := newEntry(tool)
		if err != nil {
			return err
		}
		r.mu.Lock()
		err = r.addLocked(e)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// newEntry checks the definition of a tool.
func newEntry(tool Tool) (entry, error) {
	e := entry{tool: tool, def: tool.Definition()}
	if !IsToken(e.def.Name) {
		return entry{}, fmt.Errorf("register tool %q: the name is not of the form %s", e.def.Name, TokenForm)
	}
	e.def.Effect = cmp.Or(e.def.Effect, Once)
	if e.def.Parameters == nil {
		e.def.Parameters = &jsonschema.Schema{Type: "object"}
	}
	schema, err := e.def.Parameters.Resolve(nil)
	if err != nil {
		return entry{}, fmt.Errorf("register tool %q: schema of the arguments: %w", e.def.Name, err)
	}
	e.schema = schema
	return e, nil
}

func (r *Registry) addLocked(e entry) error {
	if _, ok := r.tools[e.def.Name]; ok {
		return fmt.Errorf("register tool %q: the name is registered already", e.def.Name)
	}
	r.tools[e.def.Name] = e
	return nil
}

// Keep removes all tools but the named ones. If one of these is unknown, Keep fails
// and removes nothing.
func (r *Registry) Keep(names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if _, ok := r.tools[name]; !ok {
			return fmt.Errorf("there is no tool %q; known are %s", name, strings.Join(slices.Sorted(maps.Keys(r.tools)), ", "))
		}
	}
	maps.DeleteFunc(r.tools, func(name string, _ entry) bool { return !slices.Contains(names, name) })
	return nil
}

// Definition returns the definition of the named tool.
func (r *Registry) Definition(name string) (Definition, bool) {
	e, ok := r.lookup(name)
	return e.def, ok
}

// CallsBack reports whether the named tool is an AsyncTool, which completes its jobs
// with a callback. Another program completes the async results of any other tool.
func (r *Registry) CallsBack(name string) bool {
	e, _ := r.lookup(name)
	_, async := e.tool.(AsyncTool)
	return async
}

// Checkpoint returns how far a call came; ok is false if its tool does not resume
// calls.
func (r *Registry) Checkpoint(ctx context.Context, call Call, since time.Time) (checkpoint Checkpoint, ok bool, err error) {
	e, _ := r.lookup(call.Tool)
	resumable, ok := e.tool.(ResumableTool)
	if !ok {
		return Checkpoint{}, false, nil
	}
	checkpoint, err = resumable.Checkpoint(ctx, call, since)
	return checkpoint, true, err
}

// Made returns the calls that a call made and did not get the results of, if its tool is a CallingTool.
func (r *Registry) Made(ctx context.Context, call Call) ([]CallKey, error) {
	e, _ := r.lookup(call.Tool)
	if calling, ok := e.tool.(CallingTool); ok {
		return calling.Made(ctx, call)
	}
	return nil, nil
}

// Definitions lists all tools, sorted by name, so that prompts are stable.
func (r *Registry) Definitions() []Definition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := slices.Sorted(maps.Keys(r.tools))
	defs := make([]Definition, len(names))
	for i, name := range names {
		defs[i] = r.tools[name].def
	}
	return defs
}

func (r *Registry) lookup(name string) (entry, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.tools[name]
	return e, ok
}

// Check returns the error that Run would return for an unknown tool or invalid arguments.
func (r *Registry) Check(call Call) error {
	e, ok := r.lookup(call.Tool)
	if !ok {
		return r.unknownTool(call.Tool)
	}
	return e.validate(call.Args)
}

// Run runs a call and always returns a result. For an unknown tool, invalid arguments,
// a panic and a nil result it returns an error result with a code in Err.
//
// If the tool is an AsyncTool and callback is not nil, the tool may return an async
// result and call callback later; see AsyncTool.
func (r *Registry) Run(ctx context.Context, call Call, callback AsyncCallback) *Result {
	e, ok := r.lookup(call.Tool)
	if !ok {
		return r.logged(call, Failure(r.unknownTool(call.Tool)))
	}
	if err := e.validate(call.Args); err != nil {
		args, changed := Coerce(e.def.Parameters, e.def.Aliases, call.Args)
		if e.def.Lenient && changed {
			call.Args, err = args, e.validate(args)
		}
		if err != nil {
			return r.logged(call, Failure(err))
		}
	}
	if async, ok := e.tool.(AsyncTool); ok && callback != nil {
		return r.logged(call, r.recovered(call, func() *Result {
			return async.ExecuteAsync(ctx, call, r.once(call, callback))
		}))
	}
	return r.logged(call, r.recovered(call, func() *Result { return e.tool.Execute(ctx, call) }))
}

func (r *Registry) unknownTool(name string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	known := slices.Sorted(maps.Keys(r.tools))
	return Errorf(CodeUnknownTool, "unknown tool %q%s; known are %s", name, DidYouMean(name, known), strings.Join(known, ", "))
}

// validate checks the arguments against the schema. Its errors tell the model how to
// correct them.
func (e entry) validate(args json.RawMessage) error {
	var instance any = map[string]any{}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &instance); err != nil {
			return Errorf(CodeInvalidArguments, "arguments of %s: not JSON: %v", e.def.Name, err)
		}
	}
	if instance == nil { // a JSON null
		instance = map[string]any{}
	}
	object, ok := instance.(map[string]any)
	if !ok {
		return Errorf(CodeInvalidArguments, "arguments of %s: want a JSON object", e.def.Name)
	}
	if err := e.schema.Validate(instance); err != nil {
		if text := mismatch(e.def.Parameters, object); text != "" {
			return Errorf(CodeInvalidArguments, "arguments of %s: %s", e.def.Name, text)
		}
		return Errorf(CodeInvalidArguments, "arguments of %s: %s", e.def.Name, strings.ReplaceAll(strings.TrimPrefix(err.Error(),
			"validating root: "), "<invalid reflect.Value>", "null"))
	}
	return nil
}

// recovered runs f and returns an error result if f panics or returns nil.
func (r *Registry) recovered(call Call, f func() *Result) (res *Result) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error().Str("call", call.IDToken()).Str("session", call.SessionToken()).Str("tool", call.Tool).Interface("panic",
				p).Bytes("stack", debug.Stack()).Msg("tool panicked")
			res = Failure(Errorf(CodePanic, "the tool %s panicked: %v", call.Tool, p))
		}
	}()
	if res = f(); res == nil {
		res = Failure(Errorf(CodePanic, "the tool %s returned no result", call.Tool))
	}
	return res
}

// once passes on the first completion, and replaces nil by an error result.
func (r *Registry) once(call Call, callback AsyncCallback) AsyncCallback {
	var once sync.Once
	return func(ctx context.Context, res *Result) {
		once.Do(func() {
			if res == nil {
				res = Failure(Errorf(CodePanic, "the tool %s completed without a result", call.Tool))
			}
			callback(ctx, r.logged(call, res))
		})
	}
}

// logged logs the end of a call, or the start of an async job, without arguments and
// content.
func (r *Registry) logged(call Call, res *Result) *Result {
	pause, paused := PauseOf(res.Err)
	switch {
	case paused:
		r.log.Info().Str("call", call.IDToken()).Str("session", call.SessionToken()).Str("tool", call.Tool).Str("reason", pause.Reason).Msg("tool paused")
	case errors.Is(res.Err, ErrTakenOver):
		r.log.Warn().Str("call", call.IDToken()).Str("session", call.SessionToken()).Str("tool", call.Tool).Msg("another worker has continued the call")
	case res.IsError: // the error may quote arguments and contents
		r.log.Warn().Str("call", call.IDToken()).Str("session", call.SessionToken()).Str("tool", call.Tool).Str("code", CodeOf(res.Err)).Msg("tool failed")
		if CodeOf(res.Err) != CodeInvalidArguments {
			r.log.Debug().Str("call", call.IDToken()).AnErr("error", res.Err).Msg("the error of the tool")
		}
	case res.Async:
		r.log.Info().Str("call", call.IDToken()).Str("session", call.SessionToken()).Str("tool", call.Tool).Msg("tool started in background")
	case r.log.GetLevel() <= zerolog.DebugLevel:
		r.log.Debug().Str("call", call.IDToken()).Str("session", call.SessionToken()).Str("tool", call.Tool).Msg("tool completed")
	}
	return res
}
