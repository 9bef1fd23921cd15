package tools

import (
	"context"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Effect is what a second run of a tool would do. It decides what happens to a call
// whose worker died.
type Effect string

const (
	// Once: the tool must not run twice. After a crash the outcome is unknown. The
	// zero value means Once, the safe choice.
	Once Effect = "once"
	// Keyed: the tool passes the call's id to a service that drops duplicates. The
	// worker runs it again.
	Keyed Effect = "keyed"
	// Idempotent: a second run is harmless. The worker runs it again.
	Idempotent Effect = "idempotent"
)

// Definition describes a tool to models, to the registry and to the worker.
type Definition struct {
	// Name is a token; it is part of subjects and of the model's tool list.
	Name string
	// Description tells the model when and how to use the tool.
	Description string
	// Parameters is the schema of the arguments, of type object. Nil accepts any
	// object.
	Parameters *jsonschema.Schema
	// Effect decides whether the worker may run a call again; empty means Once.
	Effect Effect
	// NoOffload exempts the tool's results from offloading. It is for tools that read
	// artifacts.
	NoOffload bool
	// AcceptsArtifacts lets a worker replace arguments {"$artifact":"ID"} by the content
	// of an artifact of the call's session.
	AcceptsArtifacts bool
	// Lenient accepts arguments in other forms than that of Parameters; see Coerce.
	// Aliases maps other names that models write to the names of arguments, or to "" if an
	// argument changes nothing.
	Lenient bool
	Aliases map[string]string
}

// Tool runs calls. Execute is called concurrently, with arguments that fit the schema,
// and should return soon after ctx ended. It reports a failure as a Result with
// IsError.
type Tool interface {
	Definition() Definition
	Execute(ctx context.Context, call Call) *Result
}

// AsyncCallback receives the completion of an async call, from any goroutine. Calls
// after the first one have no effect.
type AsyncCallback func(ctx context.Context, result *Result)

// AsyncTool is a Tool whose jobs can continue in the background. ExecuteAsync returns
// an AsyncResult immediately and calls callback once when the job has ended. If it
// returns another result, it started no job and does not call callback. ctx ends after
// callback has returned.
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

// CallingTool is a ResumableTool whose calls make other calls, and wait for them.
type CallingTool interface {
	ResumableTool
	// Made returns the calls that a call made and did not get the results of: if the worker of the call died, they go on, and
	// the worker that gets the call next cancels them if the call was cancelled meanwhile.
	Made(ctx context.Context, call Call) ([]CallKey, error)
}
