package agents

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Used is what the turns of models used: on a day, of a model, or in a session.
type Used struct {
	// Of is the day (UTC, as 2006-01-02), the model, or the token of the session.
	Of    string `json:"of"`
	Turns int    `json:"turns"`
	agent.Usage
}

// The groups of ReadUsage.
const (
	ByDay     = "day"
	ByModel   = "model"
	BySession = "session"
)

// ReadUsage sums what the turns since a time used, in groups ordered by Of. Conversations that
// were deleted do not count.
func ReadUsage(ctx context.Context, b *bus.Bus, since time.Time, by string) ([]Used, error) {
	groups := map[string]*Used{}
	for m, err := range b.Read(ctx, bus.Sessions, bus.Query{Subject: b.Session("*"), Since: since}) {
		if err != nil {
			return nil, fmt.Errorf("read what agents used: %w", err)
		}
		e, err := agent.DecodeEntry(m.Body)
		if err != nil || e.Usage == nil {
			continue
		}
		of := map[string]string{ByDay: m.At.UTC().Format(time.DateOnly), ByModel: e.Model, BySession: b.Split(m.Subject)[1]}[by]
		if groups[of] == nil {
			groups[of] = &Used{Of: of}
		}
		groups[of].Turns++
		groups[of].Add(e.Usage)
	}
	used := []Used{}
	for _, of := range slices.Sorted(maps.Keys(groups)) {
		used = append(used, *groups[of])
	}
	return used, nil
}
