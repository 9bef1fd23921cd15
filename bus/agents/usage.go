package agents

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Used is what the turns of models used: on a day, of a model, in a session, or for a tool.
type Used struct {
	// Of is the day (UTC, as 2006-01-02), the model, the token of the session, or the tool.
	Of string `json:"of"`
	agent.Total
}

// UsageRequest selects what was used.
type UsageRequest struct {
	By   string  `json:"by"`
	Last float64 `json:"last"` // seconds before now; default a week
}

// UsageList is what was used, in groups ordered by Of.
type UsageList struct {
	Used []Used `json:"used"`
}

// The groups of UsageRequest.By.
const (
	ByDay   = "day"
	ByModel = "model"
	// BySession adds what sub-agents used to the session that started them.
	BySession = "session"
	// ByTool shares what a turn used among the results that are new to it, by their length.
	// noTool is what the turns used that read no result, but a prompt.
	ByTool = "tool"
	noTool = "(prompt)"
)

// readUsage sums what turns used. Conversations that were deleted do not count.
func readUsage(ctx context.Context, b *bus.Bus, in UsageRequest) (list UsageList, err error) {
	if groups := []string{ByDay, ByModel, BySession, ByTool}; !slices.Contains(groups, in.By) {
		return list, tools.Errorf(tools.CodeInvalidArguments, "by %q: want %s", tools.Excerpt(in.By, 40), strings.Join(groups, ", "))
	}
	since, err := task.Since(cmp.Or(in.Last, 7*24*3600))
	if err != nil {
		return list, err
	}
	groups, lengths := map[string]*Used{}, map[string]map[string]int64{} // of the last results of a session, by tool
	add := func(of string, used agent.Total) {
		if groups[of] == nil {
			groups[of] = &Used{Of: of}
		}
		groups[of].Include(used)
	}
	for m, err := range b.Read(ctx, bus.Sessions, bus.Query{Subject: b.Session("*"), Since: since}) {
		if err != nil {
			return list, fmt.Errorf("read what agents used: %w", err)
		}
		e, err := agent.DecodeEntry(m.Body)
		session := b.Split(m.Subject)[1]
		var used agent.Total
		used.Count(e)
		switch {
		case err != nil:
		case e.Kind == agent.KindResults:
			if lengths[session] == nil {
				lengths[session] = map[string]int64{}
			}
			for _, r := range e.Results {
				lengths[session][r.Tool] += int64(len(r.ForLLM)) + 1
			}
		case e.Usage == nil:
		case in.By == ByTool && e.Kind == agent.KindAssistant:
			share(lengths[session], used, add)
			delete(lengths, session)
		default:
			add(map[string]string{ByDay: m.At.UTC().Format(time.DateOnly), ByModel: e.Model, BySession: session, ByTool: noTool}[in.By], used)
		}
	}
	list.Used = []Used{}
	parents := parents{}
	for _, of := range slices.Sorted(maps.Keys(groups)) {
		root := of
		if in.By == BySession {
			if root, err = parents.rootOf(ctx, b, of); err != nil {
				return list, err
			}
		}
		if root != of {
			add(root, groups[of].Total)
			delete(groups, of)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(groups)) {
		list.Used = append(list.Used, *groups[of])
	}
	return list, nil
}

// share adds the parts of what a turn used that belong to the results that it read, by their lengths.
func share(lengths map[string]int64, u agent.Total, add func(tool string, u agent.Total)) {
	if len(lengths) == 0 {
		lengths = map[string]int64{noTool: 1}
	}
	all := int64(0)
	for _, length := range lengths {
		all += length
	}
	from := int64(0)
	for _, tool := range slices.Sorted(maps.Keys(lengths)) {
		to := from + lengths[tool]
		part := func(n int64) int64 { return n*to/all - n*from/all } // the parts add up to n
		add(tool, agent.Total{Turns: u.Turns, Usage: agent.Usage{
			Input: part(u.Input), Output: part(u.Output), CachedInput: part(u.CachedInput), Cost: u.Cost * float64(lengths[tool]) / float64(all),
		}})
		from = to
	}
}
