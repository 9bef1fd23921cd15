package provider

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// probeInterval is how often a model that is down is asked again.
const probeInterval = time.Minute

// Candidate is one model of a Fallback.
type Candidate struct {
	Spec     string
	Provider agent.Provider
}

// Fallback is a model with substitutes: while a model is down, the next one answers. A model
// is down if it has failed for some time, or if its account has no credit. Each minute one
// request tries it again. What is down is known to this process only.
type Fallback struct {
	after  time.Duration
	log    zerolog.Logger
	models []*candidate
}

type candidate struct {
	Candidate
	mu       sync.Mutex
	last     error     // the last failure
	failing  time.Time // since when; zero if the last answer was good
	down     bool
	askAgain time.Time // if it is down
}

// NewFallback returns the first of the models, with the others as its substitutes. A model
// that fails for the time after is down.
func NewFallback(after time.Duration, log zerolog.Logger, models ...Candidate) *Fallback {
	f := &Fallback{after: after, log: log}
	for _, m := range models {
		f.models = append(f.models, &candidate{Candidate: m})
	}
	return f
}

// Complete implements agent.Provider.
func (f *Fallback) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	var failures, skipped []error
	for i, m := range f.models {
		isLast := i == len(f.models)-1
		down, ask, failure := m.state()
		if !ask && !isLast {
			skipped = append(skipped, failure)
			continue
		}
		asked := req
		asked.Probe = req.Probe || down && !isLast
		res, err := m.Provider.Complete(ctx, asked)
		if err == nil {
			if m.works() {
				f.log.Info().Str("model", m.Spec).Msg("the model answers again")
			}
			return res, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil || isLast || !m.fails(err, f.after) {
			break
		}
		if !down {
			f.log.Warn().Err(err).Str("model", m.Spec).Str("instead", f.models[i+1].Spec).Msg("the model is down; another one answers")
		}
	}
	return agent.Response{}, lastOf(failures, skipped)
}

// lastOf returns the last failure, with the others and those of the models that were not asked. If
// an earlier one is temporary and the last is not, it returns the earlier one, so that the run waits.
func lastOf(failures, skipped []error) error {
	isTemporary := func(err error) bool {
		failure, ok := errors.AsType[*agent.ProviderError](err)
		return ok && failure.Retryable
	}
	chosen := len(failures) - 1
	if i := slices.IndexFunc(failures, isTemporary); i >= 0 && !isTemporary(failures[chosen]) {
		chosen = i
	}
	failure, ok := errors.AsType[*agent.ProviderError](failures[chosen])
	if !ok {
		return failures[chosen]
	}
	named := *failure
	named.Others = append(skipped, slices.Delete(slices.Clone(failures), chosen, chosen+1)...)
	return &named
}

// state reports whether the model is down, because of which failure, and whether it is to be asked. Of a model
// that is down, only one caller in a probeInterval asks.
func (c *candidate) state() (down, ask bool, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	ask = !c.down || !now.Before(c.askAgain)
	if c.down && ask {
		c.askAgain = now.Add(probeInterval)
	}
	return c.down, ask, c.last
}

// works notes an answer, and reports whether the model was down.
func (c *candidate) works() (wasDown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasDown, c.down, c.failing = c.down, false, time.Time{}
	return wasDown
}

// fails notes a failure, and reports whether the model is down.
func (c *candidate) fails(err error, after time.Duration) (down bool) {
	failure, ok := errors.AsType[*agent.ProviderError](err)
	if !ok || !isOutage(failure) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.last = err
	if c.failing.IsZero() {
		c.failing = now
	}
	if !c.down && (failure.Code == agent.CodeNoCredit || now.Sub(c.failing) >= after) {
		c.down, c.askAgain = true, now.Add(probeInterval)
	}
	return c.down
}
