package offload

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// Config configures an Offloader. The zero value works.
type Config struct {
	// Disabled keeps every result in the prompt. A result that is too large to be
	// published becomes an error result with its head and tail.
	Disabled bool
	// Threshold is the number of tokens above which a result is offloaded.
	// Default 8,000.
	Threshold int64
	// InlineChars is the number of characters (runes) below which an offloaded text
	// is still shown in full. Default 40,000. Half of it is the limit of JSON and tables, because
	// jq and SQL answer what a model wants to know of them (docs/eval.md).
	InlineChars int64
	// Budget is how many characters (runes) of results in full a session gets in a minute.
	// Above it, results of 4,000 characters or more are offloaded. It is at least InlineChars.
	// 0 means no limit.
	Budget int
	// Always lists tools, or actions of tools as "tool:action". Their results are
	// always offloaded, regardless of the size and the call.
	Always []string
	// MaxResult is the largest result event, in bytes of JSON. It must be below the
	// server's max_payload. Default 512 KiB. A ForUser longer than
	// min(MaxResult/4, 128 KiB) is stored and cut.
	MaxResult int
	// ReferenceChars is about the longest reference, in characters (runes); its preview is cut.
	// 0 means no limit besides that of previews.
	ReferenceChars int
	// Pool is where the sessions take turns to have pictures decoded, as ReaderConfig.Pool.
	Pool *limited.Pool
	// Log receives a line for each offload.
	Log zerolog.Logger
}

func (c Config) withDefaults() Config {
	c.Threshold = cmp.Or(max(c.Threshold, 0), 8_000)
	c.InlineChars = cmp.Or(max(c.InlineChars, 0), 40_000)
	c.MaxResult = cmp.Or(max(c.MaxResult, 0), 512<<10)
	if c.Budget > 0 {
		c.Budget = max(c.Budget, int(c.InlineChars))
	}
	if c.Pool == nil {
		c.Pool = limited.NewPool()
	}
	return c
}

// inlineChars returns the number of characters below which a stored text is shown in full.
func (c Config) inlineChars(rec Record) int64 {
	if rec.queryable() || strings.HasPrefix(rec.Summary, tables.PreviewStart) {
		return c.InlineChars / 2
	}
	return c.InlineChars
}

// maxForUser returns the largest ForUser, in bytes of JSON.
func (c Config) maxForUser() int { return min(128<<10, c.MaxResult/4) }

// reason is why a result is offloaded; empty if it is not.
type reason string

const (
	keep      reason = ""
	always    reason = "allow_list"
	requested reason = "call"
	tooLong   reason = "tokens"
	adopted   reason = "object" // stored by its producer
	tooMany   reason = "budget"
	pictures  reason = "pictures" // taken out of a text
	// The next two are not policy: such a result cannot be published otherwise.
	tooLarge reason = "too_large_to_publish"
	notText  reason = "not_text"
)

// decide applies the policy in this order: the Disabled flag, the tool's definition,
// the list, the call, the size.
func (c Config) decide(call tools.Call, def tools.Definition, b body) (reason, error) {
	switch {
	case c.Disabled || def.NoOffload:
		return keep, nil
	case slices.Contains(c.Always, call.Tool), slices.Contains(c.Always, call.Tool+":"+call.Action):
		return always, nil
	case call.Offload != nil && *call.Offload:
		return requested, nil
	case call.Offload != nil:
		return keep, nil
	}
	long, err := exceeds(b.plain, b.plain.Size(), c.Threshold)
	if err != nil || !long {
		return keep, err
	}
	return tooLong, nil
}
