package cron_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

type args map[string]any

func TestTool(t *testing.T) {
	t.Parallel()
	jobs := cron.New(bustest.New(t))
	tool := jobs.Tool(cron.ToolConfig{PromptTool: "subagent", PromptArg: "task", PromptQueue: "agents"})
	reg := tools.NewRegistry(zerolog.Nop())
	if err := reg.Register(tool); err != nil {
		t.Fatal(err)
	}
	run := func(session string, a args) *tools.Result {
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return reg.Run(t.Context(), tools.Call{ID: "1", Session: session, Tool: "cron", Args: raw, Channel: "telegram", ChatID: "7"}, nil)
	}
	ok := func(a args, want ...string) {
		t.Helper()
		res := run("alice", a)
		if res.IsError || !res.Silent || res.ForUser != "" {
			t.Errorf("%v: %+v", a, res)
		}
		for _, w := range want {
			if !strings.Contains(res.ForLLM, w) {
				t.Errorf("%v: got %q, want %q in it", a, res.ForLLM, w)
			}
		}
	}
	fails := func(session string, a args, code, want string) {
		t.Helper()
		if res := run(session, a); !res.IsError || tools.CodeOf(res.Err) != code || !strings.Contains(res.ForLLM, want) {
			t.Errorf("%s %v: got %s %q, want %s %q", session, a, tools.CodeOf(res.Err), res.ForLLM, code, want)
		}
	}

	ok(args{"action": "list"}, "There are no cron jobs.")
	backup := args{"action": "add", "name": "daily-backup", "prompt": "back it up", "cron": "30 9 * * 1-5", "time_zone": "Europe/Berlin"}
	ok(backup, "Cron job added: daily-backup\n", `30 9 * * 1-5" in Europe/Berlin, calls subagent "back it up", next `)
	ok(backup, "Cron job added: daily-backup\n") // a redelivery
	e, err := jobs.Get(t.Context(), cron.Caller{Session: "alice"}, "daily-backup")
	if err != nil || e.Tool != "subagent" || e.Queue != "agents" || string(e.Args) != `{"task":"back it up"}` || e.Channel != "telegram" || e.ChatID != "7" || e.TimeZone != "Europe/Berlin" {
		t.Errorf("added %+v, %v", e, err)
	}
	in := args{"action": "add", "name": "tea", "message": "tea is ready", "in_seconds": 300}
	ok(in, "\nat ", `message "tea is ready"`)
	ok(in, "Cron job added: tea\n")
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	ok(args{"action": "add", "name": "once", "message": "x", "at": at.In(time.FixedZone("", 7200)).Format(time.RFC3339)}, "\nat "+at.Format(time.RFC3339))
	ok(args{"action": "add", "name": "often", "message": "x", "every_seconds": 90}, "every 1m30s")
	ok(args{"action": "list"}, "daily-backup: ", "\ntea: ")
	ok(args{"action": "get", "name": "often"}, "often: every 1m30s", "\nNext runs:")

	// An update changes only the given fields.
	ok(args{"action": "update", "name": "daily-backup", "time_zone": "Asia/Tokyo"}, `30 9 * * 1-5" in Asia/Tokyo, calls subagent "back it up"`)
	ok(args{"action": "update", "name": "daily-backup", "every_seconds": 60}, `every 1m, calls subagent "back it up"`)
	ok(args{"action": "update", "name": "daily-backup", "message": "do it yourself"}, `every 1m, calls message "do it yourself"`)
	ok(args{"action": "disable", "name": "daily-backup"}, "Cron job disabled: daily-backup\n", ", disabled")
	ok(args{"action": "enable", "name": "daily-backup"}, "Cron job enabled: daily-backup\n", ", next ")

	for _, a := range []args{
		{"action": "get"}, {"action": "update", "every_seconds": 5}, {"action": "remove"}, {"action": "enable"}, {"action": "disable"},
	} {
		a["name"] = "daily-backup"
		fails("bob", a, tools.CodeNotFound, "no such job")
		a["name"] = "*"
		fails("alice", a, tools.CodeNotFound, "no such job")
	}
	if res := run("bob", args{"action": "list"}); !strings.Contains(res.ForLLM, "no cron jobs") {
		t.Errorf("bob sees %q", res.ForLLM)
	}
	other := maps.Clone(backup)
	other["prompt"] = "another one"
	fails("alice", other, tools.CodeInvalidArguments, "a job with this name exists")
	for _, tt := range []struct {
		a    args
		want string
	}{
		{args{"action": "explode"}, "action"}, {args{}, "action"},
		{args{"action": "add", "name": "x", "message": "x"}, "exactly one of"},
		{args{"action": "add", "name": "x", "message": "x", "cron": "* * * * *", "every_seconds": 5}, "exactly one of"},
		{args{"action": "add", "name": "x", "every_seconds": 5}, "give a message or a prompt"},
		{args{"action": "add", "name": "x", "every_seconds": 5, "message": "x", "prompt": "x"}, "not both"},
		{args{"action": "add", "name": "x", "every_seconds": -5, "message": "x"}, "minimum"},
		{args{"action": "add", "name": "x", "in_seconds": 1 << 40, "message": "x"}, "maximum"},
		{args{"action": "add", "name": "x", "at": "tomorrow", "message": "x"}, "want a time such as"},
		{args{"action": "add", "name": "tea", "message": "another", "in_seconds": 5}, "a job with this name exists"},
	} {
		fails("alice", tt.a, tools.CodeInvalidArguments, tt.want)
	}
	for _, tt := range []struct {
		a    args
		want string
	}{
		{args{"action": "add", "name": "a.b", "every_seconds": 5, "message": "x"}, "not of the form"},
		{args{"action": "add", "name": "-b", "every_seconds": 5, "message": "x"}, "not of the form [A-Za-z0-9_-]{1,64}, not beginning with -"},
		{args{"action": "add", "name": "x", "cron": "61 * * * *", "message": "x"}, "cron expression"},
		{args{"action": "add", "name": "x", "cron": "* * * * *", "time_zone": "Mars", "message": "x"}, "time zone"},
		{args{"action": "add", "name": "x", "every_seconds": 5, "time_zone": "UTC", "message": "x"}, "time zone"},
		{args{"action": "add", "name": "x", "at": "2001-01-01T00:00:00Z", "message": "x"}, "has passed"},
	} {
		fails("alice", tt.a, tools.CodeInvalidArguments, tt.want)
	}
	ok(args{"action": "remove", "name": "tea"}, "Cron job removed: tea")
	fails("alice", args{"action": "remove", "name": "tea"}, tools.CodeNotFound, "no such job")
}

func TestToolLimits(t *testing.T) {
	t.Parallel()
	jobs := cron.New(bustest.New(t))
	tool := jobs.Tool(cron.ToolConfig{})
	if _, ok := tool.Definition().Parameters.Properties["prompt"]; ok {
		t.Error("jobs have prompts without an agent")
	}
	if tool.Definition().Effect != tools.Keyed {
		t.Errorf("effect = %q", tool.Definition().Effect)
	}
}

// A list for a model has pages that it can read at once, with each job once.
func TestToolListPages(t *testing.T) {
	t.Parallel()
	const count = 150
	jobs, call := cron.New(bustest.New(t)), tools.Call{Session: "alice"}
	tool := jobs.Tool(cron.ToolConfig{})
	run := func(args string) string {
		t.Helper()
		call.ID, call.Args = args, []byte(args)
		res := tool.Execute(t.Context(), call)
		if res.IsError {
			t.Fatal(res.ForLLM)
		}
		return res.ForLLM
	}
	for i := range count {
		run(fmt.Sprintf(`{"action":"add","name":"job%03d","message":%q,"every_seconds":3600}`, i, strings.Repeat("täglich ", 50)))
	}
	pages, after, names := 0, "", []string{}
	for next := true; next; pages++ {
		page := run(fmt.Sprintf(`{"action":"list","after":%q}`, after))
		if n := utf8.RuneCountInString(page); n > 15_000 || n < 14_000 && strings.Contains(page, "continue after") {
			t.Errorf("page %d has %d characters", pages, n)
		}
		for line := range strings.Lines(page) {
			if name, _, ok := strings.Cut(line, ": every"); ok {
				names = append(names, name)
			}
		}
		_, after, next = strings.Cut(strings.TrimSuffix(page, ".)"), "continue after ")
	}
	if pages < 2 || len(names) != count || !slices.IsSorted(names) || len(slices.Compact(names)) != count {
		t.Errorf("%d pages have %d jobs: %q", pages, len(names), names)
	}
}
