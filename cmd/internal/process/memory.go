package process

import (
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/memory"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Values of --memory.
const (
	memoryOwner   = "owner"
	memorySession = "session"
)

// owner is the owner of the notes of the person to whom the process belongs.
const owner = "owner"

// memoryTools returns the tools that keep notes, if this process runs agents.
func (p *parts) memoryTools() []tools.Tool {
	if !p.Agents.Enabled() {
		return nil
	}
	return memory.New(p.bus).Tools(p.noteOwner)
}

// sharesNotes reports whether all sessions but those of chats have the same notes.
func (p *parts) sharesNotes() bool {
	if p.Agents.Memory == "" {
		return p.OwnServer != nil
	}
	return p.Agents.Memory == memoryOwner
}

// noteOwner returns the owner of the notes of a session: the person to whom the process
// belongs, or the session. A chat that users write from is a session with its own notes, unless
// it is the default chat of its channel.
func (p *parts) noteOwner(session string) string {
	if parent, ok := agent.ParentSession(session); ok {
		session = parent
	}
	own := !p.sharesNotes() || tools.IsToken(session) && tools.Token(session) != session // a hash: it may be a chat
	for name, chat := range p.defaultChats() {
		given, ok := strings.CutPrefix(session, name+"-")
		own = own || ok && given != chat
	}
	if own {
		return tools.TokenOf(session)
	}
	return owner
}
