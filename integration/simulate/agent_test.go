package simulate

import (
	"context"
	"encoding/json"
	"fmt"
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
// a call of a tool and then with "answer ID". Some requests fail, and some take long.
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
	if req.Summary {
		return agent.Response{Content: []agent.Block{agent.Text("a summary")}, StopReason: agent.StopEndTurn, Model: "m"}, nil
	}
	said := spoken(req.Messages)
	if len(said) == 0 {
		said = []string{"ask none-0"}
	}
	id := strings.TrimPrefix(said[len(said)-1], "ask ")
	want := conversationTo(id)
	if whole := len(want) == len(said); req.ReplacedTurns == 0 && !whole || !slices.Equal(said, want[max(0, len(want)-len(said)):]) {
		m.ledger.wrong(fmt.Sprintf("a request of the model has the texts %q", said))
	}
	if end := req.Messages[len(req.Messages)-1]; slices.ContainsFunc(end.Content, func(b agent.Block) bool { return b.Type == agent.TypeToolResult && b.ToolUseID == "use-"+id }) {
		return agent.Response{Content: []agent.Block{agent.Text("answer " + id)}, StopReason: agent.StopEndTurn, Model: "m"}, nil
	}
	in, err := json.Marshal(args{MS: int(n%3) * 500, Size: int(n%4/3) * 60_000})
	tool := []string{"once", "keyed", "idempotent", "asked"}[n%4]
	return agent.Response{Content: []agent.Block{agent.ToolUse("use-"+id, tool, in)}, StopReason: agent.StopToolUse, Model: "m"}, err
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
	p := &promise{session: session, id: id, tool: "agent", reply: "answer " + id, user: "answer " + id, chat: "of-" + session}
	in, err := json.Marshal(map[string]string{"prompt": "ask " + id})
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

// approve says yes to each call that waits for an approval.
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
			s.ledger.approve(a.ID)
			_, _ = approvals.Answer(ctx, s.client, tools.CallKey{Session: a.Session, ID: a.ID}, task.Answer{Approve: true, By: "the simulation"})
		}
		cancel()
	}
}
