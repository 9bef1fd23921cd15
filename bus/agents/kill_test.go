//go:build unix

package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// scenario is a load for worker processes with a fake provider.
type scenario struct {
	sessions, messages, turns int
	workers                   int
	die                       float64
	children                  bool // each run starts a sub-agent, which has two turns
	context                   int  // limit in tokens; 0 means so many that nothing is compacted
}

// Agents of ten turns run on two workers that are killed at any step of a call or of the
// agent loop. Each run ends as without kills, the model gets no request for a stored turn,
// and no once-only tool runs twice. STEVEDORE_AGENT_RUNS is the number of runs.
func TestAgentsSurviveKills(t *testing.T) {
	scenario{sessions: numberOf(t, "RUNS", 6), messages: 1, turns: 10, workers: 2, die: 0.005}.run(t)
}

// numberOf returns the number in the variable STEVEDORE_AGENT_<NAME>.
func numberOf(t *testing.T, name string, byDefault int) int {
	t.Helper()
	s := os.Getenv("STEVEDORE_AGENT_" + name)
	if s == "" {
		return byDefault
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A run of 100 turns (STEVEDORE_AGENT_TURNS) is compacted on workers that are killed. The model gets no request for a
// stored turn, and no second request for a stored summary. At the end it finds the result of
// the first turn.
func TestLongRunSurvivesKills(t *testing.T) {
	slow.Test(t)
	scenario{sessions: 1, messages: 1, turns: numberOf(t, "TURNS", 100), workers: 2, die: 0.001, context: 8_000}.run(t)
}

// Twenty sessions on three workers do not see each other.
func TestParallelSessionsDoNotMix(t *testing.T) {
	scenario{sessions: 20, messages: 1, turns: 4, workers: 3}.run(t)
}

// Agents answer concurrent prompts of one session one after the other, on two workers that
// are killed from time to time.
func TestOneSessionOnTwoWorkers(t *testing.T) {
	scenario{sessions: 1, messages: numberOf(t, "MESSAGES", 6), turns: 3, workers: 2, die: 0.002}.run(t)
}

// A run gets the report of its sub-agent although the workers of both are killed, and the
// sub-agent's once-only tools run once.
func TestSubagentsSurviveKills(t *testing.T) {
	slow.Test(t)
	scenario{sessions: numberOf(t, "RUNS", 6), messages: 1, turns: 3, workers: 2, die: 0.005, children: true}.run(t)
}

func (p scenario) run(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	lease := agentLease
	if p.die == 0 { // a worker on a busy machine must not lose a call, which another one would then run
		lease = bustest.Timeout
	}
	b := bustest.Connect(t, s, bus.Config{Lease: lease, Log: bustest.Log(t)})
	model := newFakeModel(t, b, p.script(t))
	user := newUser(t, b)
	file := filepath.Join(t.TempDir(), "runs")
	workers := startWorkers(t, p.workers, agentChildEnv+"="+s.URL(), agentModelEnv+"="+model.URL, agentRunsEnv+"="+file, agentLeaseEnv+"="+lease.String(),
		fmt.Sprintf("%s=%g", agentDieEnv, p.die), fmt.Sprintf("%s=%d", agentContextEnv, cmp.Or(p.context, 1_000_000)))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	slots := make(chan struct{}, 16)
	var group sync.WaitGroup
	for i := range p.sessions * p.messages {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			session := fmt.Sprint("s", i%p.sessions)
			call := tools.Call{ID: fmt.Sprint("run", i), Session: session, Tool: agent.AgentTool, Args: json.RawMessage(fmt.Sprintf(`{"prompt":"I am <%s>"}`, session))}
			event, err := rpc.Submit(ctx, b, bus.AgentQueue, call)
			want := fmt.Sprintf("done for <%s>", session)
			if err != nil || event.IsError || event.ForLLM != want {
				t.Errorf("%s of %s: %q, %v; want %q", call.ID, session, event.ForLLM, err, want)
			}
		})
	}
	group.Wait()
	user.check(t, p)
	compactions := 0
	for i := range p.sessions {
		compactions += p.checkLog(t, b, fmt.Sprint("s", i))
	}
	if n := model.summaries; n < compactions || n > compactions+len(workers.deaths) || (compactions > 2) != (p.context > 0) {
		t.Errorf("%d requests for summaries of %d compactions", n, compactions)
	}
	runs, once := runsOf(t, file), 0
	for call, n := range runs {
		if strings.HasPrefix(call, "once ") {
			if once++; n > 1 {
				t.Errorf("%s ran %d times", call, n)
			}
		}
	}
	most := p.turns - 1
	if p.children {
		most += 2
		for i := range p.sessions {
			id := fmt.Sprint("s", i)
			bustest.WaitUntil(t, "the completion in "+id, func() bool { return len(notices(t, b, id)) > 0 })
			if n := notices(t, b, id); len(n) != 1 || !strings.Contains(n[0].Text, "born") {
				t.Errorf("%s has the notices %+v", id, n)
			}
		}
	}
	if most *= p.sessions * p.messages; once > most {
		t.Errorf("%d once-only calls ran, and the model asked for %d", once, most)
	}
	t.Logf("%d runs, %d requests for %d turns, %d once-only calls ran, %d compactions, %d workers were killed",
		p.sessions*p.messages, model.requests(), p.sessions*p.messages*p.turns, once, compactions, len(workers.deaths))
}

// script returns p.messages times p.turns turns. All but the last turn of a message call two
// tools, and expect the result of the idempotent one.
func (p scenario) script(t *testing.T) *provider.Script {
	t.Helper()
	var lines []string
	for range p.messages {
		for turn := range p.turns {
			expect := ""
			if turn > 0 {
				expect = fmt.Sprintf(`"expect":["echo %d for"],"capture":{"who":"for (<s\\d+>)"},`, turn-1)
			}
			child := ""
			if p.children && turn == 0 {
				child = `,{"name":"subagent","input":{"task":"child"}},{"name":"spawn","input":{"task":"child"}}`
			} else if p.children && turn == 1 {
				expect = strings.Replace(expect, "[", `["Subagent task completed","born",`, 1)
			}
			if p.context > 0 && turn >= p.turns-3 {
				lines = append(lines, []string{
					`{"tools":[{"name":"query_artifacts","input":{}}]}`,
					`{"capture":{"id":"(run0-turns-0-\\d+)"},"tools":[{"name":"grep_knowledge","input":{"artifact_id":"${id}","pattern":"echo 0 for"}}]}`,
					`{"expect":["echo 0 for <s0>"],"capture":{"who":"for (<s\\d+>)"},"text":"done for ${who}"}`,
				}[turn-p.turns+3])
			} else if turn == p.turns-1 {
				lines = append(lines, fmt.Sprintf(`{%s"text":"done for ${who}"}`, expect))
			} else {
				lines = append(lines, fmt.Sprintf(`{%s"tools":[{"name":"once","input":{"n":%d}},{"name":"idempotent","input":{"n":%d}}%s]}`, expect, turn, turn, child))
			}
		}
	}
	lines = append(lines, `{"for":"^\\[summary\\]$"}`, `{"text":"I am <s0>."}`, `{"for":"^child"}`, `{"tools":[{"name":"once"},{"name":"idempotent","input":{"n":99}}]}`, `{"expect":["echo 99"],"text":"born"}`)
	script, err := provider.ParseScript([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// checkLog checks a conversation for interleaved runs, missing or repeated turns, and texts
// of other sessions.
func (p scenario) checkLog(t *testing.T, b *bus.Bus, id string) (compactions int) {
	t.Helper()
	bodies, _, err := session.New(b).Read(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	run, ended, turns, compactions, cut := "", 0, 0, 0, 0
	for i, body := range bodies {
		e, err := agent.DecodeEntry(body)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Kind == agent.KindNotice:
			continue
		case (e.Kind == agent.KindUser) != (run == ""), run != "" && e.Run != run:
			t.Fatalf("%s: entry %d (%s) is of %s, while %q is open", id, i, e.Kind, e.Run, run)
		case e.Kind == agent.KindUser:
			run, turns = e.Run, 0
		case e.Kind == agent.KindAssistant:
			turns++
		case e.Kind == agent.KindCompacted:
			if compactions++; e.Compaction.Cut <= cut || len(e.Compaction.Parts) != 1 {
				t.Errorf("%s: the compaction %+v follows the cut %d", id, e.Compaction, cut)
			}
			cut = e.Compaction.Cut
		case e.Kind == agent.KindEnd:
			if run = ""; turns != p.turns || e.End.Reason != agent.Done {
				t.Errorf("%s: %s ended (%s) after %d turns", id, e.Run, e.End.Reason, turns)
			}
			ended++
		}
		checkOwner(t, id, string(body))
	}
	if ended != p.messages {
		t.Errorf("%s: %d runs ended, want %d", id, ended, p.messages)
	}
	return compactions
}

// newUser runs a notifier until the test ends.
func newUser(t *testing.T, b *bus.Bus) user {
	t.Helper()
	u := user{make(chan channel.Notification, 10_000)}
	notifier, err := notify.New(b, notify.Config{Channels: map[string]channel.Channel{"console": u}, Conversations: NewConversations(b, stateOf(b), nil), Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- notifier.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return u
}

// check fails the test unless the user got each output of a tool and each reply once, the
// reply of a run last.
func (u user) check(t *testing.T, p scenario) {
	t.Helper()
	outputs := 2 * (p.turns - 1)
	if p.context > 0 {
		outputs -= 4
	}
	completions := 0
	if p.children {
		outputs++ // the report
		completions = p.sessions
	}
	seen, shown := map[string]bool{}, map[string]int{}
	for range p.sessions*p.messages*(outputs+1) + completions {
		var n channel.Notification
		select {
		case n = <-u.got:
		case <-time.After(time.Minute):
			t.Fatalf("the user got %d outputs and replies; want %d of each run", len(seen), outputs+1)
		}
		run, _, isOutput := strings.Cut(n.Call, "-t")
		switch {
		case seen[n.Call]:
			t.Errorf("the user got %s twice: %q", n.Call, n.Text)
		case n.Kind == channel.KindCompletion:
			if n.Text != "born" {
				t.Errorf("%s: the user got %q", n.Call, n.Text)
			}
		case isOutput:
			shown[run]++
		case shown[run] != outputs || n.Text != fmt.Sprintf("done for <%s>", n.Session):
			t.Errorf("%s: the user got %q after %d outputs of %d", n.Call, n.Text, shown[run], outputs)
		}
		seen[n.Call] = true
	}
	if len(u.got) > 0 {
		t.Errorf("an unexpected notification: %+v", <-u.got)
	}
}

var owner = regexp.MustCompile(`<(s\d+)>`)

// checkOwner fails the test if a text contains the name of another session.
func checkOwner(t *testing.T, session, text string) {
	t.Helper()
	for _, m := range owner.FindAllStringSubmatch(text, -1) {
		if m[1] != session {
			t.Errorf("%s sees a text of %s", session, m[1])
		}
	}
}

// fakeModel serves the Messages API from a script and counts the requests.
type fakeModel struct {
	*httptest.Server
	mu        sync.Mutex
	asked     int
	summaries int
}

func (m *fakeModel) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

var replaced = regexp.MustCompile(`Here (\d+) earlier turns`)

// replacedTurns returns how many turns a summary replaces.
func replacedTurns(messages []agent.Message) (n int) {
	if m := replaced.FindStringSubmatch(agent.TextOf(messages[0].Content)); m != nil {
		n, _ = strconv.Atoi(m[1]) // it has only digits
	}
	return n
}

func newFakeModel(t *testing.T, b *bus.Bus, script *provider.Script) *fakeModel {
	m := &fakeModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked++
		m.mu.Unlock()
		var req struct {
			System   []agent.Block
			Messages []agent.Message
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			return // the worker was killed while it sent the request
		}
		ask := agent.Request{Messages: req.Messages, ReplacedTurns: replacedTurns(req.Messages)}
		session := "a sub-agent"
		if len(req.System) > 0 && strings.HasPrefix(req.System[0].Text, "You shorten a conversation") {
			ask.Summary = true
			m.mu.Lock()
			m.summaries++
			m.mu.Unlock()
		} else if m := owner.FindStringSubmatch(req.Messages[0].Content[0].Text); m != nil {
			session = m[1]
			if text, err := json.Marshal(req.Messages); err == nil {
				checkOwner(t, session, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(text)))
			}
			checkUnanswered(t, b, session, req.Messages)
		}
		res, err := script.Complete(context.Background(), ask)
		if err != nil {
			t.Errorf("%s: %v", session, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body, err := bus.Encode(map[string]any{
			"type": "message", "role": "assistant", "content": res.Content, "stop_reason": res.StopReason,
			"usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
		})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the worker may be killed
	}))
	t.Cleanup(m.Close)
	return m
}

// checkUnanswered fails the test if the conversation already has the requested turn.
func checkUnanswered(t *testing.T, b *bus.Bus, id string, messages []agent.Message) {
	said := replacedTurns(messages)
	for _, m := range messages {
		if m.Role == agent.RoleAssistant {
			said++
		}
	}
	bodies, _, err := session.New(b).Read(context.Background(), id, 0)
	if err != nil {
		t.Error(err)
	}
	logged := 0
	for _, body := range bodies {
		if e, err := agent.DecodeEntry(body); err == nil && e.Kind == agent.KindAssistant {
			logged++
		}
	}
	if logged != said {
		t.Errorf("%s: request for turn %d, but the conversation has %d", id, said+1, logged)
	}
}
