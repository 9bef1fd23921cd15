package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// The budget counts what the conversations of the day cost: a sub-agent counts for the session
// that started it, and the next day begins anew.
func TestBudget(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		log, last := session.New(b), map[string]uint64{}
		add := func(name string, e agent.Entry) {
			t.Helper()
			token := tools.TokenOf(name)
			body, err := json.Marshal(e)
			if err == nil {
				last[token], err = log.Append(t.Context(), token, last[token], body)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		turn := func(name string, cost float64) {
			add(name, agent.Entry{Kind: agent.KindAssistant, Usage: &agent.Usage{Cost: cost}})
		}
		var out bytes.Buffer
		budget := NewBudget(b, 10, 4, zerolog.New(&out))
		check := func(u *Budget, name, want string) {
			t.Helper()
			err := u.Check(t.Context(), tools.TokenOf(name))
			switch {
			case want == "" && err != nil, want != "" && (err == nil || tools.CodeOf(err) != agent.CodeCostBudget || !strings.Contains(err.Error(), want)):
				t.Errorf("session %s: %v, want %q", name, err, want)
			}
		}
		child := agent.SubagentSession(tools.Call{ID: "c", Session: "a"})
		turn("a", 3)
		check(budget, "a", "")
		add(child, agent.Entry{Kind: agent.KindUser, Message: &agent.Message{}, Call: &tools.Call{ID: "c", Session: child, Tool: agent.SubagentTool}})
		turn(child, 1.5)
		for _, u := range []*Budget{budget, NewBudget(b, 10, 4, zerolog.Nop())} { // a worker that starts now knows the same
			check(u, "a", "of the session a, 4.00 a day, is spent: 4.50")
			check(u, child, "of the session a, 4.00 a day")
			check(u, "b", "")
		}
		// A session that names itself as a sub-agent forms a circle.
		add("circle", agent.Entry{Kind: agent.KindUser, Message: &agent.Message{}, Call: &tools.Call{ID: "x", Session: "circle"}})
		turn("b", 3.9)
		check(budget, "b", "")
		check(budget, "b", "")
		if n := strings.Count(out.String(), "80 % of today's budget of the session b is spent"); n != 1 {
			t.Errorf("the log warns %d times: %s", n, out.String())
		}
		turn("c", 2)
		check(budget, "d", "of all sessions, 10.00 a day, is spent: 10.40")
		time.Sleep(24 * time.Hour)
		check(budget, "a", "")
		check(budget, "a", "")
		if budget.next != 0 {
			t.Errorf("on a day without entries, the budget read those of the days before, up to %d", budget.next-1)
		}
		turn("a", 2.5)
		turn(child, 1.5) // which began the day before
		for _, u := range []*Budget{budget, NewBudget(b, 10, 4, zerolog.Nop())} {
			check(u, "a", "of the session a")
			check(u, child, "of the session a")
		}
		for _, last := range []float64{3600, 7 * 24 * 3600} {
			usage, err := readUsage(t.Context(), b, UsageRequest{By: BySession, Last: last})
			if err != nil || usage.Used[0].Of != "a" || usage.Used[len(usage.Used)-1].Of == tools.TokenOf(child) {
				t.Errorf("the last %v s: %+v, %v", last, usage, err)
			}
		}

		// A caller whose time ends does not wait for another that reads.
		budget.turn <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := budget.Check(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("a check beside one that reads: %v", err)
		}
		<-budget.turn
	})
}

// The stream of conversations is lost with its disk. The new one begins at 1 again: what agents cost since counts.
func TestBudgetAfterTheStreamWasLost(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		budget := NewBudget(b, 5.5, 0, zerolog.Nop())
		check := func(name, want string) {
			t.Helper()
			body, err := json.Marshal(agent.Entry{Kind: agent.KindAssistant, Usage: &agent.Usage{Cost: 1}})
			if err == nil {
				_, err = session.New(b).Append(t.Context(), name, 0, body)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := budget.Check(t.Context(), name); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("after the turn of %s: %v, want %q", name, err, want)
			}
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			check(name, "")
		}
		stream, err := b.Stream(t.Context(), bus.Sessions)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		if err := b.JetStream().DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream().CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		check("e", "")
		check("f", "spent: 6.00") // what was spent before stays spent
	})
}
