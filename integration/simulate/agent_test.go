package simulate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// model is the provider of a process. It answers the n-th question of a conversation, "ask ID", with
// a call of a tool and then with "answer ID". Some requests fail, some take
// long, and some answers are no use.
type model struct {
	process  *process
	ledger   *ledger
	requests atomic.Int64
}

// Complete implements agent.Provider.
func (m *model) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	n := m.requests.Add(1)
	if err := tools.Sleep(ctx, time.Duration(n%5)*time.Second); err != nil {
		return agent.Response{}, err
	}
	if m.process.link.died() {
		<-ctx.Done()
		return agent.Response{}, ctx.Err()
	}
	if n%7 == 0 {
		return agent.Response{}, &agent.ProviderError{Code: agent.CodeOverloaded, Model: "m", Status: 529, Retryable: true, Message: "overloaded"}
	}
	switch n % 13 {
	case 4: // late, and then nothing
		err := tools.Sleep(ctx, 2*time.Minute)
		return agent.Response{}, cmp.Or(err, error(&agent.ProviderError{Code: agent.CodeUnreachable, Model: "m", Retryable: true, Message: "the connection ended"}))
	case 11: // late
		if err := tools.Sleep(ctx, 2*time.Minute); err != nil {
			return agent.Response{}, err
		}
	}
	if req.Summary {
		return agent.Response{Content: []agent.Block{agent.Text("a summary")}, StopReason: agent.StopEndTurn, Model: "m"}, nil
	}
	if res, ok := growTree(req.Messages); ok {
		return res, nil
	}
	said := spoken(req.Messages)
	if len(said) == 0 {
		said = []string{"ask none-0"}
	}
	if bad := unacceptable(req.Messages); bad != "" {
		m.ledger.wrong("a request of the model has " + bad)
	}
	id := strings.TrimPrefix(said[len(said)-1], "ask ")
	m.ledger.hear(heard{said, req.ReplacedTurns == 0})
	if hasResult(req.Messages, id) {
		return agent.Response{Content: []agent.Block{agent.Text("answer " + id)}, StopReason: agent.StopEndTurn, Model: "m"}, nil
	}
	if bad, ok := m.badAnswer(n); ok {
		return bad, nil
	}
	tool, a := []string{"once", "async", "keyed", "async", "idempotent", "asked"}[n%6], args{MS: int(n%3) * 500, Size: int(n%4/3) * 60_000}
	if tool == "async" { // it ends while the conversation waits, or later
		a.MS = int(n%4) * 20_000
	}
	in, err := json.Marshal(a)
	return agent.Response{Content: []agent.Block{agent.ToolUse("use-"+id, tool, in)}, StopReason: agent.StopToolUse, Model: "m"}, err
}

// hasResult reports whether a conversation has the result of the call since the question. Completions may be behind it.
func hasResult(messages []agent.Message, id string) bool {
	for _, message := range slices.Backward(messages) {
		for _, b := range message.Content {
			switch {
			case b.Type == agent.TypeToolResult && b.ToolUseID == "use-"+id:
				return true
			case b.Type == agent.TypeText && b.Text == "ask "+id:
				return false
			}
		}
	}
	return false
}

// badAnswer returns what the model answers to some of the requests: a turn that was cut off in the middle of a call, or
// calls that no tool has or that no provider takes back.
func (m *model) badAnswer(n int64) (res agent.Response, ok bool) {
	switch n % 13 {
	case 6:
		cut := agent.ToolUse(fmt.Sprint("cut-", n), "idempotent", json.RawMessage(`{"ms":0,"job":"cut"}`))
		return agent.Response{Content: []agent.Block{agent.Text("ans"), cut}, StopReason: agent.StopMaxTokens, Model: "m"}, true
	case 9:
		return agent.Response{Content: []agent.Block{
			agent.Text(" "), agent.ToolUse("", "no such tool!", json.RawMessage(`{}`)), agent.ToolUse("", "once", json.RawMessage(`"ms"`)), agent.ToolUse("a", "keyed", json.RawMessage(`"{\"ms\":"`)),
		}, StopReason: "garbage", Model: "m"}, true
	}
	return res, false
}

var acceptable = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// unacceptable returns why a provider rejects a conversation: a call that is not valid or has the id of another one, or
// a call without a result.
func unacceptable(messages []agent.Message) string {
	open := map[string]bool{}
	for i, message := range messages {
		if message.Role == agent.RoleAssistant && len(open) > 0 {
			return fmt.Sprintf("no results of %v", open)
		}
		for _, b := range message.Content {
			switch {
			case b.Type == agent.TypeToolResult:
				delete(open, b.ToolUseID)
			case b.Type != agent.TypeToolUse:
			case !acceptable.MatchString(b.ID) || !acceptable.MatchString(b.Name) || !bytes.HasPrefix(b.Input, []byte("{")) || open[b.ID]:
				return fmt.Sprintf("the call %q of %q with %s in message %d", b.ID, b.Name, b.Input, i)
			default:
				open[b.ID] = true
			}
		}
	}
	return ""
}

// spoken returns the questions and answers of a conversation in their order.
func spoken(messages []agent.Message) (said []string) {
	for _, message := range messages {
		for _, b := range message.Content {
			if b.Type == agent.TypeText && (strings.HasPrefix(b.Text, "ask ") || strings.HasPrefix(b.Text, "answer ")) {
				said = append(said, b.Text)
			}
		}
	}
	return said
}

// heard is what a request to the model contains. It is whole if no summary has replaced its beginning.
type heard struct {
	said  []string
	whole bool
}

// judgeConversations holds what the model heard against the order of the questions, and notes those whose answers it did
// not hear. A question that was given up may come again behind later ones.
func (l *ledger) judgeConversations(fail func(string, ...any)) {
	id := func(text string) string { return strings.TrimPrefix(text[strings.IndexByte(text, ' ')+1:], l.tenant) }
	isRetried := func(text string) bool { return l.retried[id(text)] }
	for _, h := range l.heard {
		said := slices.DeleteFunc(slices.Clone(h.said), isRetried)
		if len(said) == 0 {
			continue
		}
		last := said[len(said)-1]
		want := conversationTo(l.tenant + id(last))
		if strings.HasPrefix(last, "answer ") {
			want = append(want, last)
		}
		lacking, ok := lacks(said, slices.DeleteFunc(want, isRetried), h.whole)
		if !ok || len(slices.Compact(slices.Sorted(slices.Values(h.said)))) < len(h.said) {
			fail("a request of the model has the texts %q", h.said)
		}
		for _, question := range lacking {
			l.lacking[strings.TrimPrefix(question, l.tenant)] = true
		}
	}
}

// conversationTo returns what is said up to a question: each one before it once, with its answer.
func conversationTo(id string) (said []string) {
	session, number, _ := strings.Cut(id, "-")
	var n int
	fmt.Sscan(number, &n)
	for i := 1; i <= n; i++ {
		if said = append(said, fmt.Sprintf("ask %s-%d", session, i)); i < n {
			said = append(said, fmt.Sprintf("answer %s-%d", session, i))
		}
	}
	return said
}

// lacks returns the questions whose answers a conversation lacks. Nothing else may be missing, but for a beginning that
// a summary has replaced.
func lacks(said, want []string, whole bool) (questions []string, ok bool) {
	for ; len(want) > 0 && (whole || len(said) > 0); want = want[:len(want)-1] {
		last := want[len(want)-1]
		question, isAnswer := strings.CutPrefix(last, "answer ")
		switch {
		case len(said) > 0 && said[len(said)-1] == last:
			said = said[:len(said)-1]
		case isAnswer:
			questions = append(questions, question)
		default:
			return nil, false
		}
	}
	return questions, len(said) == 0
}

// agentTools are the tools with which a worker runs agents.
func (p *process) agentTools(t *testing.T, store offload.Store, registry *tools.Registry, l *ledger) []tools.Tool {
	setup := agents.NewToolsConfig(p.bus, store, bustest.Log(t))
	setup.Definitions, setup.DefaultModel = registry.Definitions, "m"
	setup.Models = map[string]agent.Provider{"m": &model{process: p, ledger: l}}
	toolset, err := agent.Tools(setup)
	if err != nil {
		t.Fatal(err)
	}
	return toolset
}

// ask sends the next question of a conversation to the agent, once the one before it is accepted.
func (s *simulation) ask() {
	session := fmt.Sprintf("a%d", s.rnd.IntN(2))
	s.questions[session]++
	n := s.questions[session]
	id := fmt.Sprintf("%s-%d", session, n)
	answer := "answer " + s.ledger.tenant + id
	p := &promise{session: session, id: id, tool: "agent", reply: answer, user: answer, chat: "of-" + session}
	in, err := json.Marshal(map[string]string{"prompt": "ask " + s.ledger.tenant + id})
	if err != nil {
		s.t.Fatal(err)
	}
	s.insist(func(ctx context.Context) error {
		if !s.ledger.has(n == 1, fmt.Sprintf("%s-%d", session, n-1)) {
			return errDown
		}
		_, err := rpc.Enqueue(ctx, s.client, bus.AgentQueue, tools.Call{ID: id, Session: session, Tool: agent.AgentTool, Args: in, Channel: "chat", ChatID: p.chat})
		if err == nil {
			s.ledger.accept(p)
		}
		return err
	})
}

// approvalPause is how long calls wait for their approval, at most.
const approvalPause = 20 * time.Second

// approve says yes or no to the calls that wait for an approval. Some get no answer before their deadline.
func (s *simulation) approve() {
	for {
		select {
		case <-s.leaving:
			return
		case <-time.After(approvalPause):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		waiting, _ := approvals.List(ctx, s.client, "*") // the next turn asks again
		for _, a := range waiting {
			if tree := s.ledger.treeOf(a); s.ledger.isIgnored(a.ID) || tree != "" && !s.ledger.mayApprove(tree) {
				continue
			}
			yes := !s.ledger.isDenied(a.ID)
			if yes {
				s.ledger.approve(a.ID)
			}
			_, _ = approvals.Answer(ctx, s.client, tools.CallKey{Session: a.Session, ID: a.ID}, task.Answer{Approve: yes, By: "the simulation"})
		}
		cancel()
	}
}
