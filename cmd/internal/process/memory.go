package process

import (
	"strings"

	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// owner is the value of --memory with which sessions share notes, and the owner of these notes: the person to
// whom the process belongs.
const owner = "owner"

// noteOwner returns the function that returns the owner of the notes of a session: the person to
// whom the process belongs, or the session. A chat that users write from is a session with its own
// notes, unless it is the default chat of its channel.
func (o *Options) noteOwner(channels map[string]channel.Channel) func(session string) string {
	shared := o.Agents.Memory == owner || o.Agents.Memory == "" && o.OwnServer != nil
	return func(session string) string {
		if parent, ok := agent.ParentSession(session); ok {
			session = parent
		}
		own := !shared || tools.IsToken(session) && tools.Token(session) != session // a hash: it may be a chat
		for _, name := range o.Receive.Channels {
			to, receives := channels[name].(channel.Receiving)
			chat, ok := strings.CutPrefix(session, name+"-")
			own = own || receives && ok && chat != to.DefaultChat()
		}
		if own {
			return tools.TokenOf(session)
		}
		return owner
	}
}
