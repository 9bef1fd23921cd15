package limited

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is a kind of work that a hostile input makes long or large. docs/security.md has the table.
type Kind struct {
	Name string
	// Most is the limit of processor time for the largest input; see CPU.
	Most time.Duration
	// Memory is the bytes of live values that the process of the work may have, about; see Serve.
	// 0 means that the work runs in the worker and needs little memory for an input of any size.
	Memory int64
}

// The kinds of work, with their limits.
var (
	SQL     = Kind{"sql", 30 * time.Second, 128 << 20}
	JQ      = Kind{"jq", 10 * time.Second, 300 << 20}
	Grep    = Kind{"grep", 10 * time.Second, 0}
	Picture = Kind{"picture", 5 * time.Second, 256 << 20}
	HTML    = Kind{"html", 7 * time.Second, 256 << 20}
)

const (
	firstMB   = 4 * time.Second // of processor time
	furtherMB = time.Second
)

// CPU returns the processor time that the work on an input of so many bytes may take.
func (k Kind) CPU(size int64) time.Duration {
	return min(firstMB+time.Duration(max(size-1, 0)>>20)*furtherMB, k.Most)
}

// Reached is the cause of the end of a context whose work reached a limit of time.
type Reached struct {
	CPU  time.Duration // of the processor
	Wall time.Duration // if the processor was too busy to do the work
}

func (r Reached) Error() string {
	if r.Wall > 0 {
		return fmt.Sprintf("it did not end within %s, because the machine is busy", r.Wall)
	}
	return fmt.Sprintf("it reached its limit of %s of processor time", r.CPU)
}

// TimeUp returns the limit of time that ended a context, if one did.
func TimeUp(ctx context.Context) (r Reached, reached bool) {
	return errors.AsType[Reached](context.Cause(ctx))
}

// maxWall returns how long work may take that may use so much processor time, for work that hangs:
// on a busy machine, other work runs before it.
func maxWall(cpu time.Duration) time.Duration { return 10*cpu + time.Minute }
