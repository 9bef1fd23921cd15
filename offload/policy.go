package offload

import (
	"slices"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
)

// Config says what is offloaded and what may be published. The zero value works.
type Config struct {
	// Disabled keeps every result in the prompt. What is too large to be
	// published then becomes an error result with its head and tail.
	Disabled bool
	// Threshold is the number of tokens above which a result is offloaded.
	// Default 8,000.
	Threshold int64
	// InlineChars: an offloaded text of fewer characters (runes) is shown whole
	// all the same; the artifact is there for later. Default 40,000.
	InlineChars int64
	// Allow names tools, or tools with an action as "tool:action", whose
	// results are always offloaded, whatever their size and the call say.
	Allow []string
	// Counter estimates tokens. Default RuneCounter.
	Counter Counter
	// MaxForUser is the largest ForUser, in bytes of JSON; the rest of a longer
	// one is stored. Default 128 KiB.
	MaxForUser int
	// MaxResult is the largest result event, in bytes of JSON, ids, channel and
	// error text included. It must stay below the server's max_payload.
	// Default 512 KiB.
	MaxResult int
	// Log gets a line for each offload.
	Log zerolog.Logger
}

func (c Config) withDefaults() Config {
	if c.Threshold <= 0 {
		c.Threshold = 8_000
	}
	if c.InlineChars <= 0 {
		c.InlineChars = 40_000
	}
	if c.Counter == nil {
		c.Counter = RuneCounter{}
	}
	if c.MaxResult <= 0 {
		c.MaxResult = 512 << 10
	}
	if c.MaxForUser <= 0 {
		c.MaxForUser = 128 << 10
	}
	c.MaxForUser = min(c.MaxForUser, c.MaxResult/4)
	return c
}

// reason says why a result is offloaded; empty means that it is not.
type reason string

const (
	keep        reason = ""
	allowListed reason = "allow_list"
	asked       reason = "call"
	tooLong     reason = "tokens"
	adopted     reason = "object" // stored by its producer
	// The next two are not policy: what stays in the prompt must reach it.
	tooLarge reason = "too_large_to_publish"
	notText  reason = "not_text"
)

// decide applies the policy, in this order: the feature is on, the tool is on the
// list, the call wants it or not, and what is left is a matter of size.
func (c Config) decide(call tools.Call, def tools.Definition, b body) (reason, error) {
	switch {
	case c.Disabled || def.NoOffload:
		return keep, nil
	case slices.Contains(c.Allow, call.Tool), slices.Contains(c.Allow, call.Tool+":"+call.Action):
		return allowListed, nil
	case call.Offload != nil && *call.Offload:
		return asked, nil
	case call.Offload != nil:
		return keep, nil
	}
	long, err := exceeds(c.Counter, b.plain, b.plain.Size(), c.Threshold)
	if err != nil || !long {
		return keep, err
	}
	return tooLong, nil
}
