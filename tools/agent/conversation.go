package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// conversation is the state that follows from the entries of a log.
type conversation struct {
	last       uint64 // position of the last entry
	entries    []Entry
	first      int // index of the first entry that the model may see
	cut        int // index of the first entry that no compaction replaces
	compaction *Compaction
	references map[string]string   // of offloaded results, by call
	ended      map[string]*Outcome // by run
	open       *runState           // the run without an end; nil if there is none
	total      Total
	setup      []byte // packed, the last one
}

// runState says how far a run is.
type runState struct {
	id             string
	started        time.Time
	call           *tools.Call
	limits         *Limits
	toolOutput     ToolOutput
	turns          int
	usage          Usage
	subagentTokens int64
	text           string         // of the last turn that had one
	lastResult     *CallResult    // of the last call, in order of the calls
	toolCounts     map[string]int // calls that ran, by tool
	sent           []string       // what the user got before the reply: messages, and outputs of tools
	children       int            // sub-agents that turns before the last one started
	waits          []time.Time    // since the last turn, because the provider failed

	// The last turn.
	asked       time.Time // when it was logged, also by another attempt
	calls       []Block
	stop        StopReason
	results     map[string]CallResult // by call
	newChildren int                   // sub-agents that it starts
	tokensUsed  int64                 // by the run and its sub-agents, when the turn was logged
}

func newConversation() *conversation {
	return &conversation{references: map[string]string{}, ended: map[string]*Outcome{}}
}

// add applies the entry at a position of the log.
func (c *conversation) add(position uint64, e Entry) {
	c.last = position
	c.entries = append(c.entries, e)
	c.total.Count(e)
	if e.Setup != nil {
		c.setup = e.Setup
	}
	switch s := c.open; {
	case e.Kind == KindUser:
		if e.Fresh {
			c.first = len(c.entries) - 1
			c.cut, c.compaction = c.first, nil
		}
		c.open = &runState{id: e.Run, started: e.At, call: e.Call, limits: e.Limits, toolOutput: e.ToolOutput,
			results: map[string]CallResult{}, toolCounts: map[string]int{}}
	case e.Kind == KindOffloaded:
		maps.Copy(c.references, e.Offloaded)
	case e.Kind == KindCompacted && e.Compaction != nil:
		c.compaction = e.Compaction
		c.cut = min(max(c.first+e.Compaction.Cut, c.cut), len(c.entries)-1)
		if s != nil {
			s.usage.Add(e.Usage)
		}
	case e.Kind == KindEnd:
		c.ended[e.Run], c.open = cmp.Or(e.End, &Outcome{Reason: Abandoned}), nil
	case s != nil && e.Kind == KindWaiting:
		s.waits = append(s.waits, e.At)
	case s != nil && e.Kind == KindAssistant && e.Message != nil:
		s.addTurn(e)
		c.total.Subagents += s.newChildren
	case s != nil && e.Kind == KindResults:
		s.addResults(e.Results)
	}
}

func (s *runState) addTurn(e Entry) {
	s.turns++
	s.waits, s.asked = nil, e.At
	s.usage.Add(e.Usage)
	s.tokensUsed = s.totalTokens()
	s.calls, s.stop, s.results = ToolUses(e.Message.Content), e.StopReason, map[string]CallResult{}
	if text := TextOf(e.Message.Content); strings.TrimSpace(text) != "" {
		s.text = text
	}
	s.children = s.toolCounts[SubagentTool] + s.toolCounts[SpawnTool]
	s.newChildren = 0
	for _, call := range s.calls {
		if startsSubagent(call.Name) {
			s.newChildren++
		}
	}
}

func (s *runState) addResults(results []CallResult) {
	for _, res := range results {
		s.results[res.Call] = res
		s.subagentTokens += res.SubagentTokens
		if !res.NotRun {
			s.toolCounts[res.Tool]++
		}
	}
	// The order of the calls counts, not that of their results. So the outcome is
	// the same if another loop continues the run.
	for i, call := range s.calls {
		res, ok := s.results[s.callID(i)]
		if !ok {
			continue
		}
		s.lastResult = &res
		if text := s.messageToUser(call); text != "" && !res.IsError {
			s.sent = append(s.sent, text)
		}
		if s.toolOutput == OutputAll && res.hasOutput() {
			s.sent = append(s.sent, strings.TrimSpace(res.ForUser))
		}
	}
}

// totalTokens counts against the token budget.
func (s *runState) totalTokens() int64 { return s.usage.Total() + s.subagentTokens }

// pending returns the indexes of the last turn's calls that have no result.
func (s *runState) pending() []int {
	var indexes []int
	for i := range s.calls {
		if _, ok := s.results[s.callID(i)]; !ok {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

func (s *runState) callID(index int) string { return callID(s.id, s.turns, index) }

// callID returns the id of a call of a run. Turns count from 1, calls from 0. The id is
// a token; in subjects, it is the same unless it is a hash.
func callID(run string, turn, index int) string {
	return tools.Token(fmt.Sprintf("%s-t%d-%d", run, turn, index))
}

// messages returns the conversation for the model. The roles alternate and every
// call has a result, also those of interrupted runs.
func (c *conversation) messages() []Message {
	return withoutOldPictures(c.render(c.cut, c.compaction))
}

// render returns the conversation with a compaction, which may be nil, that replaces
// the entries before the cut.
func (c *conversation) render(cut int, compaction *Compaction) []Message {
	var (
		b       = newMessageBuilder()
		calls   []Block
		run     string
		turn    int
		results = map[string]CallResult{}
		notices []Block // that follow the results of the last turn
		paused  bool    // the next turn continues the last one
	)
	addResults := func() {
		for i, call := range calls {
			id := callID(run, turn, i)
			if res, ok := results[id]; ok {
				b.add(RoleUser, res.block(call.ID, c.references[id]))
			} else {
				b.add(RoleUser, ToolResult(call.ID, "The result of this call is unknown, because the run was interrupted. The tool may have run or not.", true))
			}
		}
		calls = nil
		if !paused {
			b.add(RoleUser, notices...)
			notices = nil
		}
	}
	for i, e := range c.entries[c.first:] {
		if compaction != nil && c.first+i == cut {
			b, calls, notices = newMessageBuilder(), nil, nil
			b.add(RoleUser, compaction.blocks(c.promptAt(cut))...)
		}
		switch {
		case e.Kind == KindNotice && e.Notice != nil:
			notices = append(notices, e.Notice.block())
		case e.Kind == KindUser && e.Message != nil:
			paused = false
			addResults()
			b.add(RoleUser, e.Message.Content...)
			run, turn = e.Run, 0
		case e.Kind == KindAssistant && e.Message != nil:
			addResults()
			turn++
			content := c.withoutArguments(b.normalize(e.Message.Content), run, turn)
			b.add(RoleAssistant, content...)
			calls, paused = ToolUses(content), e.StopReason == StopPause
		case e.Kind == KindResults:
			for _, res := range e.Results {
				results[res.Call] = res
			}
		}
	}
	if compaction != nil && cut == len(c.entries) { // every turn is replaced
		b, calls, notices = newMessageBuilder(), nil, nil
		b.add(RoleUser, compaction.blocks(c.promptAt(cut))...)
	}
	addResults()
	return b.messages
}

// messageBuilder joins consecutive blocks of one role into one message.
type messageBuilder struct {
	messages []Message
	turns    int
	ids      map[string]bool // of all calls
}

func newMessageBuilder() messageBuilder { return messageBuilder{ids: map[string]bool{}} }

func (b *messageBuilder) add(role string, blocks ...Block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(b.messages); n > 0 && b.messages[n-1].Role == role {
		b.messages[n-1].Content = append(b.messages[n-1].Content, blocks...)
		return
	}
	b.messages = append(b.messages, Message{Role: role, Content: slices.Clone(blocks)})
}

// replay returns the conversation of a log.
func replay(entries []Entry) *conversation {
	c := newConversation()
	for i, e := range entries {
		c.add(uint64(i+1), e)
	}
	return c
}

// Messages returns the messages that a model gets for the entries of a log.
func Messages(entries []Entry) []Message { return replay(entries).messages() }

// TotalOf returns what the runs of a log used.
func TotalOf(entries []Entry) Total { return replay(entries).total }

// SubagentSessions returns the sessions of the sub-agents that a log's runs called.
func SubagentSessions(entries []Entry) []string {
	var sessions []string
	c := newConversation()
	for i, e := range entries {
		c.add(uint64(i+1), e)
		s := c.open
		if e.Kind != KindAssistant || s == nil || s.call == nil {
			continue
		}
		for i, use := range s.calls {
			if child, ok := ChildCall(tools.Call{ID: s.callID(i), Session: s.call.Session, Tool: use.Name}); ok {
				sessions = append(sessions, SubagentSession(child))
			}
		}
	}
	return sessions
}

// LastCall returns the call that started the last run.
func LastCall(entries []Entry) (call tools.Call, ok bool) {
	for _, e := range slices.Backward(entries) {
		if e.Kind == KindUser && e.Call != nil {
			return *e.Call, true
		}
	}
	return tools.Call{}, false
}
