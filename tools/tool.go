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

// Standing is how far a call came that goes on where it stood when its worker
// died.
type Standing struct {
	// Steps that were done, of the call or of those that it waits for.
	Steps int
	// Vain is how often the call was taken up since the last step.
	Vain int
}

// ResumableTool is a Tool with such calls. One that gets on is not given up on,
// however many workers die of other things meanwhile.
type ResumableTool interface {
	Tool
	// Standing says how far a call is. What it waits for counts from since on.
	Standing(ctx context.Context, call Call, since time.Time) (Standing, error)
}
