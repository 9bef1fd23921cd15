package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// conversation is what the entries of a log say.
type conversation struct {
	last    uint64 // position
	entries []Entry
	shelved map[string]string // by call
	ended   map[string]*Outcome
	open    *progress // the run that has no end; nil if there is none
}

// progress is how far a run came.
type progress struct {
	run      string
	began    time.Time
	call     *tools.Call
	turns    int
	usage    Usage
	spent    int64 // on sub-agents
	before   int64 // spent on all when the last turn had come
	grant    *Limits
	uses     []Block // that the last turn asks for
	stop     StopReason
	text     string                // of the last turn that had any
	answers  map[string]CallResult // of the last turn
	final    *CallResult           // to the last call of all that has one
	tools    map[string]int
	children int // calls of tools that start sub-agents, before the last turn
	spawning int // and in it
}

func newConversation() *conversation {
	return &conversation{shelved: map[string]string{}, ended: map[string]*Outcome{}}
}

// add takes the entry that stands at a position.
func (c *conversation) add(position uint64, e Entry) {
	c.last = position
	c.entries = append(c.entries, e)
	p := c.open
	switch {
	case e.Kind == KindUser:
		c.open = &progress{run: e.Run, began: e.At, call: e.Call, grant: e.Limits, answers: map[string]CallResult{}, tools: map[string]int{}}
	case e.Kind == KindOffloaded:
		maps.Copy(c.shelved, e.Offloaded)
	case e.Kind == KindEnd:
		if e.End == nil {
			e.End = &Outcome{Reason: Abandoned}
		}
		c.ended[e.Run], c.open = e.End, nil
	case p != nil && e.Kind == KindAssistant && e.Message != nil:
		p.turn(e)
	case p != nil && e.Kind == KindResults:
		for _, a := range e.Results {
			p.answers[a.Call] = a
			p.spent += a.SubagentTokens
			if !a.NotRun {
				p.tools[a.Tool]++
			}
		}
		// By place, not by time: a loop that was taken up ends the same way.
		for i := range p.uses {
			if a, ok := p.answers[p.callID(i)]; ok {
				p.final = &a
			}
		}
	}
}

func (p *progress) turn(e Entry) {
	p.turns++
	if e.Usage != nil {
		p.usage = p.usage.plus(*e.Usage)
	}
	p.before = p.total()
	p.uses, p.stop, p.answers = ToolUses(e.Message.Content), e.StopReason, map[string]CallResult{}
	if text := TextOf(e.Message.Content); text != "" {
		p.text = text
	}
	p.children += p.spawning
	p.spawning = 0
	for _, use := range p.uses {
		if startsAgents(use.Name) {
			p.spawning++
		}
	}
}

// total is what counts against the token budget.
func (p *progress) total() int64 { return p.usage.Total() + p.spent }

// missing are the places of the last turn's calls that have no answer yet.
func (p *progress) missing() []int {
	var places []int
	for i := range p.uses {
		if _, ok := p.answers[p.callID(i)]; !ok {
			places = append(places, i)
		}
	}
	return places
}

// callID names the call at a place of the last turn.
func (p *progress) callID(place int) string { return callID(p.run, p.turns, place) }

// callID names a call of a run. Turns count from 1, places from 0. The id is a
// token, so that it is the same everywhere.
func callID(run string, turn, place int) string {
	return tools.Token(fmt.Sprintf("%s-t%d-%d", run, turn, place))
}

// messages is the conversation as the model gets it. Roles alternate, and every
// call has a result, whatever became of the run that it belongs to.
func (c *conversation) messages() []Message {
	var (
		b     = newBuilder()
		uses  []Block
		run   string
		turn  int
		given = map[string]CallResult{}
	)
	settle := func() {
		for i, use := range uses {
			id := callID(run, turn, i)
			if a, ok := given[id]; ok {
				b.add(RoleUser, a.block(use.ID, c.shelved[id]))
			} else {
				b.add(RoleUser, ToolResult(use.ID, "The result of this call is not known: the work was broken off before it came. The tool may have acted, or not.", true))
			}
		}
		uses = nil
	}
	for _, e := range c.entries {
		switch {
		case e.Kind == KindUser && e.Message != nil:
			settle()
			if e.Fresh {
				b = newBuilder()
			}
			b.add(RoleUser, e.Message.Content...)
			run, turn = e.Run, 0
		case e.Kind == KindAssistant && e.Message != nil:
			settle()
			turn++
			content := b.wellFormed(e.Message.Content)
			b.add(RoleAssistant, content...)
			uses = ToolUses(content)
		case e.Kind == KindResults:
			for _, a := range e.Results {
				given[a.Call] = a
			}
		}
	}
	settle()
	return b.messages
}

// builder joins blocks of one role into one message.
type builder struct {
	messages []Message
	turns    int
	ids      map[string]bool // of the calls so far
}

func newBuilder() builder { return builder{ids: map[string]bool{}} }

func (b *builder) add(role string, blocks ...Block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(b.messages); n > 0 && b.messages[n-1].Role == role {
		b.messages[n-1].Content = append(b.messages[n-1].Content, blocks...)
		return
	}
	b.messages = append(b.messages, Message{Role: role, Content: slices.Clone(blocks)})
}

// Messages reads a log's entries as the messages that a model would get.
func Messages(entries []Entry) []Message {
	c := newConversation()
	for i, e := range entries {
		c.add(uint64(i+1), e)
	}
	return c.messages()
}

// LastCall returns the call of the run that has no end yet, or else of the last
// one.
func LastCall(entries []Entry) (call tools.Call, ok bool) {
	for _, e := range entries {
		if e.Kind == KindUser && e.Call != nil {
			call, ok = *e.Call, true
		}
	}
	return call, ok
}
