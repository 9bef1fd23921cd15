package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// plant lets a client ask an agent for something that it does with a sub-agent, perhaps in the background. Most of these
// clients cancel the run or the sub-agent, which then waits for an approval: nobody answers before.
func (s *simulation) plant() {
	s.calls++
	id := fmt.Sprintf("tree%d", s.calls)
	answer := "answer " + s.ledger.tenant + id
	p := &promise{session: id, id: id, tool: agent.AgentTool, reply: answer, user: answer, chat: "of-trees", tree: "tree"}
	cut := tools.CallKey{Session: id, ID: id}
	switch s.rnd.IntN(7) {
	case 0:
		p.tree, p.cancelled = "bush", s.rnd.IntN(2) == 0
	case 1:
		p.tree, p.cancelled = "bush", true
	case 2:
	case 3:
		cut.ID += "-t1-0"
		p.pruned = true
	default:
		p.cancelled = true
	}
	in, err := json.Marshal(map[string]string{"prompt": p.tree + " " + s.ledger.tenant + id})
	if err != nil {
		s.t.Fatal(err)
	}
	pause := time.Duration(s.rnd.IntN(120)) * time.Second
	s.clients.Go(func() {
		s.retry(func(ctx context.Context) error {
			_, err := rpc.Enqueue(ctx, s.client, bus.AgentQueue, tools.Call{ID: id, Session: id, Tool: agent.AgentTool, Args: in, Channel: "chat", ChatID: p.chat})
			return err
		})
		s.ledger.accept(p)
		if p.cancelled || p.pruned {
			time.Sleep(pause)
			began := time.Now()
			s.retry(func(ctx context.Context) error {
				_, err := task.Cancel(ctx, s.client, cut.Session, cut.ID, "the client")
				if later := p.pruned && tools.CodeOf(err) == tools.CodeNotFound && time.Since(began) < jobPause; task.IsOver(err) && !later {
					return nil
				}
				return err
			})
			s.ledger.cut(id, began)
		}
	})
}

// growTree returns the next turn of an agent that does something with a sub-agent, or of the sub-agent.
func growTree(messages []agent.Message) (res agent.Response, ok bool) {
	var task, id string
	ended := false
	for _, message := range messages {
		for _, b := range message.Content {
			if kind, of, _ := strings.Cut(b.Text, " "); task == "" && slices.Contains([]string{"tree", "bush", "leaf"}, kind) {
				task, id = kind, of
			}
			ended = ended || b.Type == agent.TypeToolResult
		}
	}
	use := func(tool string, in any) agent.Block {
		data, _ := json.Marshal(in) // plain structs
		return agent.ToolUse(task+"-"+tool, tool, data)
	}
	switch {
	case task == "":
		return res, false
	case ended && task == "leaf":
		return agent.Response{Content: []agent.Block{agent.Text("report " + id)}, StopReason: agent.StopEndTurn, Model: "m"}, true
	case ended:
		return agent.Response{Content: []agent.Block{agent.Text("answer " + id)}, StopReason: agent.StopEndTurn, Model: "m"}, true
	case task == "tree":
		res.Content = []agent.Block{use(agent.SubagentTool, map[string]string{"task": "leaf " + id}), use("keyed", args{MS: 20_000, Tree: id})}
	case task == "bush":
		res.Content = []agent.Block{use(agent.SpawnTool, map[string]string{"task": "leaf " + id}), use("keyed", args{MS: 20_000, Tree: id})}
	default:
		res.Content = []agent.Block{use("asked", args{MS: 5000, Tree: id}), use("once", args{MS: 30_000, Tree: id})}
	}
	res.StopReason, res.Model = agent.StopToolUse, "m"
	return res, true
}

// treeOf returns the name of the tree to which a question belongs, if any.
func (l *ledger) treeOf(a approvals.Approval) string {
	var in args
	_ = json.Unmarshal(a.Args, &in) // those of another tool
	return strings.TrimPrefix(in.Tree, l.tenant)
}

// cut notes from when on somebody tried to cancel a run, and that it is cancelled now.
func (l *ledger) cut(tree string, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[tree] = span{from, time.Now()}
}

// grew notes that a tool begins for a tree.
func (l *ledger) grew(tree, tool string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tree = strings.TrimPrefix(tree, l.tenant)
	l.trees[tree] = append(l.trees[tree], jobRun{tool, time.Now()})
}

// mayApprove reports whether somebody answers the question of a tree. One whose run was cancelled goes soon, unless its
// sub-agent is in the background.
func (l *ledger) mayApprove(tree string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.accepted[tree]
	if p == nil || p.tree == "bush" || !p.cancelled && !p.pruned {
		return p != nil
	}
	at := l.cuts[tree].to
	if at.IsZero() || time.Since(at) < recovery {
		return false
	}
	l.wrongs = append(l.wrongs, fmt.Sprintf("%s was cancelled at %s, and a question of it waits at %s", tree, at.Format(time.TimeOnly), clock()))
	return true
}

// judgeTree holds a run with a sub-agent against its promise: it ends with one answer, or all that it started ends with it.
// The user gets one report of a sub-agent in the background.
func (s *simulation) judgeTree(ctx context.Context, results records, p *promise, end event, fail func(string, ...any)) {
	l := s.ledger
	got := countOf(l.sent[p.chat], p.user)
	switch {
	case end.Outcome == "completed":
		if end.ForLLM != p.reply || got != 1 || len(l.trees[p.id]) == 0 {
			fail("%s: the agent answered %.60q, which the user got %d times, and its tools ran %v", p.id, end.ForLLM, got, l.trees[p.id])
		}
	case l.isAbandoned(p.id, end):
	case end.Outcome != "cancelled" || !p.cancelled || got > 0:
		fail("%s: outcome %s: %s; the user got the answer %d times", p.id, end.Outcome, cmp.Or(end.ForLLM, end.Error.Code), got)
	}
	cut, ofRun := l.cuts[p.id], end.Outcome == "cancelled"
	for _, run := range l.trees[p.id] {
		stops := ofRun && run.call == "keyed" || p.tree == "tree" && (ofRun || run.call != "keyed")
		if stops && !cut.to.IsZero() && run.at.Sub(cut.to) > recovery {
			fail("%s was cancelled at %s, and its tool %s began at %s", p.id, cut.to.Format(time.TimeOnly), run.call, run.at.Format(time.TimeOnly))
		}
	}
	sub := &promise{session: p.session, id: p.id + "-t1-0"}
	if started, ok := read(ctx, results, "result", sub); ok && started.Outcome == "async" {
		e, ok := read(ctx, results, "completion", sub)
		report := "report " + l.tenant + p.id
		got := countOf(l.sent[p.chat], report)
		switch {
		case !ok, e.Outcome == "completed" && (got != 1 || !strings.Contains(e.ForLLM, report)):
			fail("%s: its sub-agent ended with %q: %.60q, and the user got %d times %q", p.id, e.Outcome, e.ForLLM, got, report)
		case e.Outcome == "cancelled" && (cut.to.IsZero() || started.at.Before(cut.from)):
			fail("%s: its sub-agent was in the background from %s on, and was cancelled with the run after %s", p.id, started.at.Format(time.TimeOnly), cut.from.Format(time.TimeOnly))
		}
	} else if p.tree == "bush" && end.Outcome == "completed" {
		fail("%s: its sub-agent was not started: %s", p.id, started.ForLLM)
	}
}
