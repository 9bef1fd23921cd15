package heartbeat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

var operator = cron.Caller{Operator: true}

// start runs a heartbeat until the test ends.
func start(t *testing.T, b *bus.Bus, cfg heartbeat.Config) (stop func()) {
	t.Helper()
	cfg.Log, cfg.Poll = bustest.Log(t), 20*time.Millisecond
	return bustest.Run(t, func(ctx context.Context) error { return heartbeat.Run(ctx, b, cfg) })
}

func write(t *testing.T, workspace, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(workspace, heartbeat.File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitForSchedule waits until ok returns true, and returns the schedule.
func waitForSchedule(t *testing.T, b *bus.Bus, what string, ok func(e cron.Entry, exists bool) bool) (e cron.Entry) {
	t.Helper()
	bustest.WaitUntil(t, what, func() bool {
		var err error
		if e, err = cron.New(b).Get(t.Context(), operator, "main"); err != nil && !errors.Is(err, cron.ErrNotFound) {
			t.Fatal(err)
		}
		return ok(e, err == nil)
	})
	return e
}

func contains(text string) func(cron.Entry, bool) bool {
	return func(e cron.Entry, ok bool) bool { return ok && strings.Contains(string(e.Args), text) }
}

func TestScheduleFollowsTheFile(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t)
	b := bustest.Connect(t, s, bus.Config{})
	workspace := t.TempDir()
	cfg := heartbeat.Config{Workspace: workspace}
	for range 3 {
		start(t, bustest.Connect(t, s, bus.Config{}), cfg)
	}
	write(t, workspace, "# Heartbeat\n- look at <inbox> & \"tell\"\n")
	first := waitForSchedule(t, b, "first", contains("inbox"))
	if got, want := string(first.Args), `{"fresh":true,"prompt":"# Heartbeat\n- look at <inbox> & \"tell\""}`; got != want {
		t.Errorf("args %s, want %s", got, want)
	}
	if first.Every != 30*time.Minute || first.Tool != agent.AgentTool || first.Queue != bus.AgentQueue || first.Session != "heartbeat-main" || first.Channel != "last" || first.Timeout != time.Hour {
		t.Errorf("heartbeat %+v", first)
	}
	write(t, workspace, "# Heartbeat\n- something else\n")
	second := waitForSchedule(t, b, "second", contains("something else"))
	if existed, err := cron.New(b).Delete(t.Context(), "main"); !existed || err != nil {
		t.Fatal(existed, err)
	}
	waitForSchedule(t, b, "written again after it was removed", contains("something else"))
	write(t, workspace, heartbeat.Template)
	waitForSchedule(t, b, "template", func(_ cron.Entry, ok bool) bool { return !ok })
	if second.ChangedAt.Equal(first.ChangedAt) {
		t.Error("the time of the change did not change")
	}
}

// Two heartbeats with different settings do not continually restart each other's
// interval: the one that started last wins.
func TestLastStartedHeartbeatWins(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	workspace := t.TempDir()
	write(t, workspace, "look")
	every := func(d time.Duration) func(cron.Entry, bool) bool {
		return func(e cron.Entry, _ bool) bool { return e.Every == d }
	}
	start(t, b, heartbeat.Config{Workspace: workspace, Every: time.Hour})
	waitForSchedule(t, b, "first", every(time.Hour))
	start(t, b, heartbeat.Config{Workspace: workspace, Every: 2 * time.Hour})
	settled := waitForSchedule(t, b, "second", every(2*time.Hour))
	checks := 0
	waitForSchedule(t, b, "20 checks of the file", func(e cron.Entry, _ bool) bool {
		if !e.ChangedAt.Equal(settled.ChangedAt) {
			t.Fatalf("written again at %s, every %s", e.ChangedAt, e.Every)
		}
		checks++
		return checks == 20
	})
}

// A worker runs the ticks, and each run is one line in the log.
func TestTicksRunAndAreLogged(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		workspace := t.TempDir()
		tool, err := tools.NewTool(agent.AgentTool, "reports", func(_ context.Context, _ tools.Call, in struct {
			Prompt string `json:"prompt"`
			Fresh  bool   `json:"fresh"`
		}) *tools.Result {
			return tools.UserResult("did\n" + in.Prompt)
		})
		if err != nil {
			t.Fatal(err)
		}
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true, Queues: []string{bus.AgentQueue}}, tool)

		write(t, workspace, "look")
		cfg := heartbeat.Config{Workspace: workspace, Every: time.Second}
		for range 3 {
			start(t, b, cfg)
		}
		results := bustest.Subscribe(t, b, "stevedore.result.heartbeat-main.>")
		seen := map[string]bool{}
		for range 3 {
			got, _ := bustest.Next[tools.ResultEvent](t, results)
			if got.ForUser != "did\nlook" || seen[got.ID] {
				t.Errorf("result %+v", got)
			}
			seen[got.ID] = true
		}
		line := regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] \[INFO\] (heartbeat-main-\S+) agent completed after \S+: did\\nlook$`)
		logged := map[string]bool{}
		bustest.WaitUntil(t, "three log lines", func() bool {
			data, _ := os.ReadFile(filepath.Join(workspace, heartbeat.LogFile))
			clear(logged)
			for l := range strings.Lines(string(data)) {
				if strings.HasPrefix(l, "#") {
					continue
				}
				m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
				if m == nil || logged[m[1]] {
					t.Fatalf("log line %q", l)
				}
				logged[m[1]] = true
			}
			return len(logged) >= 3
		})
		for id := range seen {
			if !logged[id] {
				t.Errorf("%s is not in the log: %v", id, logged)
			}
		}
	})
}

// A full log replaces the old one. The calls of an agent are not logged.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	workspace := t.TempDir()
	log := filepath.Join(workspace, heartbeat.LogFile)
	err := os.Mkdir(filepath.Dir(log), 0o700)
	if err == nil {
		err = os.WriteFile(log, bytes.Repeat([]byte("\n"), 1<<20-200), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	start(t, b, heartbeat.Config{Workspace: workspace})
	publish := func(i int, action, text string) {
		t.Helper()
		body := fmt.Sprintf(`{"id":"r%d","tool":"agent","session":"heartbeat-main","outcome":"completed","action":%q,"for_llm":%q}`, i, action, text)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("heartbeat-main", fmt.Sprintf("r%d", i)), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		publish(2*i, tools.ActionAgent, "a step")
		publish(2*i+1, bus.Heartbeat, strings.Repeat("x", 20))
	}
	read := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(workspace, name)) // missing at first
		return string(data)
	}
	bustest.WaitUntil(t, "the last line", func() bool { return strings.Contains(read(heartbeat.LogFile), "r15 ") })
	// The space was enough for two lines, not for three.
	for name, want := range map[string][]string{heartbeat.LogFile: {"r5", "r7", "r9", "r11", "r13", "r15"}, heartbeat.OldLogFile: {"r1", "r3"}} {
		var got []string
		for line := range strings.Lines(strings.TrimLeft(read(name), "\n")) {
			if !strings.HasPrefix(line, "#") {
				got = append(got, strings.Fields(line)[3])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}

// The log line of a failure contains the error in addition to the user's text.
func TestLogContainsTheError(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	workspace := t.TempDir()
	start(t, b, heartbeat.Config{Workspace: workspace})
	body := `{"id":"r1","tool":"shell","session":"heartbeat-main","outcome":"failed","action":"heartbeat","is_error":true,"for_user":"(no output)","error":{"code":"tool_failed","message":"exit code 4"}}`
	for _, m := range [][2]string{{"forged", "no result"}, {"other", body}, {"r1", body}} { // only the last one is the result of its call
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("heartbeat-main", m[0]), Body: []byte(m[1])}); err != nil {
			t.Fatal(err)
		}
	}
	var line string
	bustest.WaitUntil(t, "a log line", func() bool {
		data, _ := os.ReadFile(filepath.Join(workspace, heartbeat.LogFile)) // missing at first
		line = string(data)
		return strings.Contains(line, "ERROR")
	})
	if want := "] [ERROR] r1 shell failed after 0s: exit code 4: (no output)\n"; !strings.HasSuffix(line, want) || strings.Count(line, "\n") != 2 {
		t.Errorf("logged %q, want %q at its end", line, want)
	}
	if n := bustest.Messages(t, b, bus.Dead); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// The log exists from the first start, with a line that says what it will contain. Another
// start adds nothing.
func TestLogExistsFromTheStart(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	workspace := t.TempDir()
	read := func() string {
		data, _ := os.ReadFile(filepath.Join(workspace, heartbeat.LogFile)) // missing at first
		return string(data)
	}
	stop := start(t, b, heartbeat.Config{Workspace: workspace})
	bustest.WaitUntil(t, "the log", func() bool { return strings.HasSuffix(read(), "\n") })
	stop()
	first := read()
	start(t, b, heartbeat.Config{Workspace: workspace})() // the stop waits for its end
	if got := read(); !strings.HasPrefix(got, "# ") || got != first {
		t.Errorf("the log is %q, then %q", first, got)
	}
}

func TestNoInstructionsNoSchedule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "",
		"\ufeff \n\t\n":                   "",
		heartbeat.Template:                "",
		"# A\n## B\n- [ ]\n* \n":          "",
		"<!-- all\nof it -->":             "",
		"<!-- never closed\n- do it":      "",
		"# A\n<!-- x -->\n- water plants": "# A\n\n- water plants",
		"water plants\r\n":                "water plants",
	} {
		if got := heartbeat.Instructions(text); got != want {
			t.Errorf("Instructions(%q) = %q, want %q", text, got, want)
		}
	}
	b := bustest.New(t)
	workspace := t.TempDir()
	write(t, workspace, "do something")
	for name, cfg := range map[string]heartbeat.Config{
		"disabled":          {Workspace: workspace, Disabled: true},
		"no file":           {Workspace: t.TempDir()},
		"no file, no agent": {Workspace: t.TempDir(), NoAgent: true},
		"no agent":          {Workspace: workspace, NoAgent: true},
	} {
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Kind: bus.Heartbeat, Name: "main", Tool: "x", Every: time.Hour}, true); err != nil {
			t.Fatal(err)
		}
		cfg.Once = true
		if err := heartbeat.Run(t.Context(), b, cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := cron.New(b).Get(t.Context(), operator, "main"); !errors.Is(err, cron.ErrNotFound) {
			t.Errorf("%s: the schedule still exists, %v", name, err)
		}
	}
}

// An invalid file is an error and does not change the schedule.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for name, prepare := range map[string]func(file string) error{
		"directory":    func(file string) error { return os.Mkdir(file, 0o700) },
		"outside link": func(file string) error { return os.Symlink("/etc/passwd", file) },
		"too long":     func(file string) error { return os.WriteFile(file, make([]byte, 1<<20), 0o600) },
		"not UTF-8":    func(file string) error { return os.WriteFile(file, []byte("a\xff"), 0o600) },
	} {
		workspace := t.TempDir()
		if err := prepare(filepath.Join(workspace, heartbeat.File)); err != nil {
			t.Fatal(err)
		}
		if _, err := cron.New(b).Put(t.Context(), cron.Job{Kind: bus.Heartbeat, Name: "main", Tool: "x", Every: time.Hour}, true); err != nil {
			t.Fatal(err)
		}
		if err := heartbeat.Run(t.Context(), b, heartbeat.Config{Workspace: workspace, Once: true}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := cron.New(b).Get(t.Context(), operator, "main"); err != nil {
			t.Errorf("%s: the schedule is gone, %v", name, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]heartbeat.Config{
		"workspace": {},
		"interval":  {Workspace: ".", Every: time.Millisecond},
	} {
		if err := heartbeat.Run(t.Context(), nil, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
