package process

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Only sessions that are certainly those of the owner share notes.
func TestNoteOwner(t *testing.T) {
	telegram, err := channel.NewTelegram("1:x", channel.BotConfig{Chat: "42", Allow: "43;@ann"})
	if err != nil {
		t.Fatal(err)
	}
	p, channels := new(Options), map[string]channel.Channel{"me": telegram}
	p.Receive.Channels, p.Agents.Memory = []string{"me"}, owner
	child := func(session string) string { return agent.SubagentSession(tools.Call{ID: "c", Session: session}) }
	for session, want := range map[string]string{
		"s1": owner, "console": owner, "me": owner, "men-43": owner, "me-42": owner, child("s1"): owner, child("me-42"): owner,
		"me-43": "me-43", child("me-43"): "me-43", "me-": tools.TokenOf("me-"), "me-@ann": tools.TokenOf("me-@ann"),
		child("me-@ann"): tools.TokenOf("me-@ann"), tools.TokenOf("me-@ann"): tools.TokenOf("me-@ann"), child(child("me-43")): tools.TokenOf(child("me-43")),
	} {
		if got := p.noteOwner(channels)(session); got != want {
			t.Errorf("the notes of %q belong to %q, want %q", session, got, want)
		}
	}
	p.Agents.Memory = "session"
	for session, want := range map[string]string{"s1": "s1", "me-42": "me-42", child("s1"): "s1"} {
		if got := p.noteOwner(channels)(session); got != want {
			t.Errorf("with own notes, those of %q belong to %q, want %q", session, got, want)
		}
	}
}
