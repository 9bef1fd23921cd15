package tools

import (
	"context"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Effect says what running a tool twice would do, and so what happens to a call
// whose worker died.
type Effect string

const (
	// Once: never run twice. After a crash the outcome is unknown. It is the
	// zero value's meaning, because it is the safe one.
	Once Effect = "once"
	// Keyed: the tool passes the call's id downstream, where duplicates are
	// dropped. It runs again.
	Keyed Effect = "keyed"
	// Idempotent: running again is harmless. It runs again.
	Idempotent Effect = "idempotent"
)

// Definition describes a tool to models, to the registry and to the worker.
type Definition struct {
	// Name is a Token; it stands in subjects and in the model's tool list.
	Name string
	// Description tells the model when and how to use the tool.
	Description string
	// Parameters is the schema of the arguments, of type object; nil accepts
	// any object.
	Parameters *jsonschema.Schema
	// Effect decides about retries; empty means Once.
	Effect Effect
	// NoOffload exempts the tool's results from offloading. It is for tools
	// that read offloaded results back.
	NoOffload bool
}

// Tool runs calls. Execute may be called concurrently; all that belongs to one
// call travels in its arguments. It should return soon after ctx ended. A
// failure of the tool is a Result with IsError, never a panic; arguments were
// validated against the schema before.
type Tool interface {
	Definition() Definition
	Execute(ctx context.Context, call Call) *Result
}

// AsyncCallback takes the completion of an async call. It may be called from
// any goroutine; only the first call of it counts.
type AsyncCallback func(ctx context.Context, result *Result)

// AsyncTool is a Tool that can go on in the background. ExecuteAsync returns an
// AsyncResult at once and calls callback exactly once when the job ended; a
// result that is not Async means that nothing was started and callback will not
// be called. ctx lives until the callback returned.
type AsyncTool interface {
	Tool
	ExecuteAsync(ctx context.Context, call Call, callback AsyncCallback) *Result
}

// Checkpoint is how far a resumable call came before its worker died.
type Checkpoint struct {
	// Steps is the number of completed steps, of the call or of the calls that it
	// waits for.
	Steps int
	// Restarts is the number of restarts since the last step.
	Restarts int
}

// ResumableTool is a Tool that resumes a call where an earlier run of it stopped. The
// worker keeps retrying such a call while it completes steps.
type ResumableTool interface {
	Tool
	// Checkpoint returns how far the call came. It counts the steps of the calls that
	// it waits for only after since.
	Checkpoint(ctx context.Context, call Call, since time.Time) (Checkpoint, error)
}
