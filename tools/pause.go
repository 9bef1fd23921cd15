package tools

import (
	"errors"
	"fmt"
	"time"
)

// Pause is the Err of a result that is not final: the call waits for something that may
// take hours. The worker stores the call, frees its slot, and runs the call again when the
// wait is over. Only tools that may run again (see Effect) can return one.
type Pause struct {
	// Until is the time at which the call runs again, or its deadline if that is earlier.
	Until time.Time
	// WaitsFor are paused calls. The first of them whose pause ends ends this one too.
	WaitsFor []CallKey
	// Made is set if this call made those calls, so that they are cancelled with it.
	Made bool
	// Reason says what the call waits for, in a few words, such as "waiting for the model".
	Reason string
	// Err is the cause, if there is one.
	Err error
}

// WaitingForModel is the Reason of the run of an agent whose model cannot be reached.
const WaitingForModel = "waiting for the model"

// CallKey names a call by the tokens of its session and its id.
type CallKey struct {
	Session string `json:"session"`
	ID      string `json:"id"`
}

func (p *Pause) Error() string {
	text := fmt.Sprintf("%s until %s", p.Reason, p.Until.UTC().Format(time.RFC3339))
	if p.Err != nil {
		text += ": " + p.Err.Error()
	}
	return text
}

func (p *Pause) Unwrap() error { return p.Err }

// PauseOf returns the first *Pause in err's chain.
func PauseOf(err error) (*Pause, bool) { return errors.AsType[*Pause](err) }

// ErrTakenOver is the Err of a result that is not final: another worker has continued the
// call, because this one was suspended or cut off. The worker returns the call to its queue
// and publishes nothing; whoever gets the call finds out whether a worker still runs it.
// Only tools that may run again (see Effect) can return it.
var ErrTakenOver = errors.New("another worker has continued the call")

// ErrInterrupted is the Err of a result that is not final: the connection to the process that
// runs the tool ended, and nobody knows whether it ran. The worker runs the call again, or
// gives a once-only one the outcome unknown.
var ErrInterrupted = errors.New("the connection ended while the tool ran")
