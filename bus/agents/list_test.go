package agents_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// appendEntries adds entries to the log of a session.
func appendEntries(t *testing.T, b *bus.Bus, name string, entries ...string) {
	t.Helper()
	log := session.New(b)
	_, last, err := log.Read(t.Context(), name, 0)
	for _, e := range entries {
		if err == nil {
			last, err = log.Append(t.Context(), name, last, []byte(e))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func userEntry(run, text string) string {
	return fmt.Sprintf(`{"kind":"user","run":%q,"message":{"role":"user","content":[{"type":"text","text":%q}]},"call":{"id":%[1]q,"session":"s","tool":"agent"}}`, run, text)
}

func turnEntry(run string, tokens int) string {
	return fmt.Sprintf(`{"kind":"assistant","run":%q,"model":"m","usage":{"input_tokens":%d,"output_tokens":1,"cost":0.5},"message":{"role":"assistant","content":[{"type":"text","text":"Answer to %[1]s"}]}}`, run, tokens)
}

func conversations(t *testing.T, b *bus.Bus, q agents.ListQuery) ([]agents.Conversation, uint64, error) {
	page, err := agents.ListSessions.Here(t.Context(), b, "", q)
	return page.Sessions, page.Next, err
}

func remove(t *testing.T, b *bus.Bus, session string, force bool) error {
	_, err := agents.RemoveSession.Here(t.Context(), b, "", agents.SessionRequest{Session: session, Force: force})
	return err
}

// The pages have each conversation once, the one that was used last first, and so has the list of
// all. An open one shows what it used since the last run.
func TestListConversations(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for n := range 3 {
		for i := range 7 {
			if id := fmt.Sprint("s", i); n < 2 || i%2 == 0 {
				appendEntries(t, b, id, userEntry("r", id+" asks"))
			}
		}
	}
	appendEntries(t, b, "s5", turnEntry("r", 10), `{"kind":"end","run":"r","end":{"reason":"done"},"total":{"turns":4,"input_tokens":100,"output_tokens":9}}`, `{"kind":"notice","notice":{"id":"n"}}`)
	appendEntries(t, b, "s3", `{"kind":"end","run":"r","end":{"reason":"done"},"total":{"turns":4,"input_tokens":100,"output_tokens":9}}`, userEntry("r2", "again"), turnEntry("r2", 10))
	want := []string{"s3 open 5 110", "s5 done 4 100", "s6 open 0 0", "s4 open 0 0", "s2 open 0 0", "s0 open 0 0", "s1 open 0 0"}
	for _, limit := range []int{0, 1, 2, 3, 100} {
		var got []string
		for before, pages := uint64(0), 0; ; pages++ {
			list, next, err := conversations(t, b, agents.ListQuery{Before: before, Limit: limit, OpenTotals: true})
			if err != nil || limit > 0 && len(list) > limit || pages > 40 {
				t.Fatal(list, err)
			}
			for _, c := range list {
				got = append(got, fmt.Sprint(c.Session, " ", c.State, " ", c.Turns, " ", c.Input))
				if c.Title != c.Session+" asks" {
					t.Errorf("title %q", c.Title)
				}
			}
			if before = next; next == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	appendEntries(t, b, "told", `{"kind":"notice","notice":{"id":"n"}}`)
	if list, _, err := conversations(t, b, agents.ListQuery{Text: "TOLD", Limit: 1}); err != nil || len(list) != 1 || list[0].State != "none" || list[0].Title != "" {
		t.Errorf("a log without a run: %+v, %v", list, err)
	}
	// Notices before the first message and after the last run hide neither.
	notices := slices.Repeat([]string{`{"kind":"notice","notice":{"id":"n"}}`}, 210)
	appendEntries(t, b, "told", notices[:10]...)
	appendEntries(t, b, "told", userEntry("r", "told asks"), `{"kind":"end","run":"r","end":{"reason":"done"},"total":{"turns":4}}`)
	appendEntries(t, b, "told", notices...)
	if list, _, err := conversations(t, b, agents.ListQuery{Text: "TOLD", Limit: 1}); err != nil || len(list) != 1 || list[0].State != "done" || list[0].Turns != 4 || list[0].Title != "told asks" {
		t.Errorf("a log with many notices: %+v, %v", list, err)
	}
	list, _, err := conversations(t, b, agents.ListQuery{Text: "answer TO r2", Limit: 10})
	if err != nil || len(list) != 1 || list[0].Session != "s3" || list[0].Match != "Answer to r2" {
		t.Errorf("search: %+v, %v", list, err)
	}
	// An entry whose run no call can have hides no other conversation, and does not keep its own open.
	for i, odd := range []string{
		`{"kind":"user"}`, `{"kind":"user","run":"a.*"}`,
		`{"kind":"user","run":"r","message":{"role":"user"},"call":{"id":"r","session":"x","tool":"subagent"}}`,
	} {
		name := fmt.Sprint("odd", i)
		appendEntries(t, b, name, odd)
		list, _, err := conversations(t, b, agents.ListQuery{})
		if err != nil || len(list) != 9 || list[0].Session != name || list[0].State != string(agent.Abandoned) {
			t.Errorf("after %s: %+v, %v", odd, list, err)
		}
		if err := remove(t, b, name, false); err != nil {
			t.Errorf("after %s: %v", odd, err)
		}
	}
}

// A search looks at a bounded number of entries at once, and the next page goes on.
func TestSearchIsBounded(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	b := bustest.New(t)
	appendEntries(t, b, "old", userEntry("r", "the needle "+strings.Repeat("\u0130", 100)))
	filler := userEntry("r", strings.Repeat("x", 500_000))
	for i := range 80 {
		appendEntries(t, b, fmt.Sprint("s", i%2), filler)
	}
	list, next, err := conversations(t, b, agents.ListQuery{Text: "needle", Limit: 10})
	if err != nil || len(list) > 0 || next == 0 {
		t.Fatalf("the first page reads all: %+v, next %d, %v", list, next, err)
	}
	list, next, err = conversations(t, b, agents.ListQuery{Text: "needle", Limit: 10, Before: next})
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Match, "the needle") || next != 0 {
		t.Errorf("the second page: %+v, next %d, %v", list, next, err)
	}
}

// What a turn used is shared among the tools whose results it read; nothing is lost. The log may have the results
// in several entries, and a summary that the model wrote before the turn.
func TestUsageByTool(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	appendEntries(t, b, "s", userEntry("r", "go"), turnEntry("r", 7),
		`{"kind":"results","run":"r","answers":[{"call":"a","tool":"grep","outcome":"completed","for_llm":"123456789"},{"call":"b","tool":"shell","outcome":"completed","for_llm":"12345678901234"}]}`,
		`{"kind":"results","run":"r","answers":[{"call":"c","tool":"shell","outcome":"completed","for_llm":"1234"}]}`,
		`{"kind":"compacted","run":"r","model":"m","usage":{"input_tokens":1000,"output_tokens":10},"compaction":{"cut":1}}`,
		turnEntry("r", 101), userEntry("r2", "more"), turnEntry("r2", 3))
	usage, err := agents.GetUsage.Here(t.Context(), b, "", agents.UsageRequest{By: agents.ByTool})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range usage.Used {
		got = append(got, fmt.Sprintf("%s %d %d %d %.3f", u.Of, u.Turns, u.Input, u.Output, u.Cost))
	}
	if want := []string{"(prompt) 2 1010 12 1.000", "grep 1 33 0 0.167", "shell 1 68 1 0.333"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	usage, err = agents.GetUsage.Here(t.Context(), b, "", agents.UsageRequest{By: agents.BySession})
	all, _, listErr := conversations(t, b, agents.ListQuery{OpenTotals: true})
	if err != nil || listErr != nil || len(usage.Used) != 1 || len(all) != 1 || usage.Used[0].Turns != 3 || all[0].Turns != 3 || usage.Used[0].Input != all[0].Input {
		t.Errorf("the session used %+v, and by its line %+v; %v, %v", usage.Used, all, err, listErr)
	}
}

// Remove deletes a conversation with those of its sub-agents, but not while a run is open.
func TestRemoveConversation(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	child := tools.TokenOf("sub/s/r-t1-0")
	appendEntries(t, b, "s", userEntry("r", "go"),
		`{"kind":"assistant","run":"r","message":{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"subagent","input":{}}]}}`)
	appendEntries(t, b, child, userEntry("c", "task"), `{"kind":"end","run":"c","end":{"reason":"done"}}`)
	appendEntries(t, b, "other", userEntry("r", "stays"))
	if err := remove(t, b, "s", false); err != agents.ErrRunning {
		t.Errorf("while a run is open: %v", err)
	}
	appendEntries(t, b, "s", `{"kind":"end","run":"r","end":{"reason":"done"}}`, userEntry("r2", "go on"))
	if err := remove(t, b, "s", false); err != agents.ErrRunning {
		t.Errorf("while the second run is open: %v", err)
	}
	state := func() string {
		list, _, err := conversations(t, b, agents.ListQuery{Limit: 1, Text: "go on"})
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].State
	}
	if got := state(); got != "open" {
		t.Error(got)
	}
	// As if the call was given up: the result says so, and the conversation has no end.
	failed := bus.Message{Subject: b.Result("s", "r2"), Body: []byte(`{"id":"r2","session":"s","tool":"agent","outcome":"failed"}`)}
	if _, err := b.Publish(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != string(agent.Abandoned) {
		t.Error(got)
	}
	if err := remove(t, b, "s", false); err != nil {
		t.Error(err)
	}
	sizes, err := session.New(b).List(t.Context())
	if err != nil || len(sizes) != 1 || sizes[0] != "other" {
		t.Errorf("left: %+v, %v", sizes, err)
	}
	appendEntries(t, b, "damaged", userEntry("r", "go"), `{"kind"`)
	if err := remove(t, b, "damaged", false); err == nil || !strings.Contains(err.Error(), "entry 2 of 2 is damaged") || !strings.Contains(err.Error(), "force") {
		t.Errorf("a damaged one: %v", err)
	}
	if err := remove(t, b, "damaged", true); err != nil {
		t.Error(err)
	}
	if err := remove(t, b, "s", true); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("again: %v", err)
	}
}
