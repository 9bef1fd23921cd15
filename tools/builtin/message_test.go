//go:build unix

package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// outbox keeps one message per key. It can fail before and after it keeps a message.
type outbox struct {
	sent   map[string]builtin.Message
	before error // nothing is sent
	after  error // it is sent, and this is said all the same
}

func (o *outbox) Send(_ context.Context, m builtin.Message) (string, error) {
	if o.before != nil {
		return "", o.before
	}
	if _, ok := o.sent[m.Key]; !ok {
		o.sent[m.Key] = m
	}
	return m.Channel + ":" + m.ChatID, o.after
}

func newMessages(t *testing.T) (*outbox, func(call tools.Call, a args) *tools.Result) {
	t.Helper()
	o := &outbox{sent: map[string]builtin.Message{}}
	tool := builtin.NewMessage(o)
	if effect := tool.Definition().Effect; effect != tools.Keyed {
		t.Errorf("effect = %q", effect)
	}
	reg := tools.NewRegistry(zerolog.Nop())
	if err := reg.Register(tool); err != nil {
		t.Fatal(err)
	}
	return o, func(call tools.Call, a args) *tools.Result {
		call.Tool = "message"
		if call.ID == "" {
			call.ID = "1"
		}
		call.Args, _ = json.Marshal(a)
		return reg.Run(t.Context(), call, nil)
	}
}

func TestMessage(t *testing.T) {
	here := tools.Call{ID: "c1", Session: "s1", Channel: "telegram", ChatID: "42"}
	for name, tt := range map[string]struct {
		call            tools.Call
		args            args
		channel, chatID string
	}{
		"the call's":         {here, args{"content": "hi"}, "telegram", "42"},
		"other chat":         {here, args{"content": "hi", "chat_id": "7"}, "telegram", "7"},
		"other channel":      {here, args{"content": "hi", "channel": "console"}, "console", ""},
		"other channel+chat": {here, args{"content": "hi", "channel": "slack", "chat_id": "x"}, "slack", "x"},
		"same channel":       {here, args{"content": "hi", "channel": "telegram"}, "telegram", "42"},
		"long id":            {tools.Call{Session: "s1", Channel: "x", ChatID: strings.Repeat("c", tools.MaxIDLen)}, args{"content": "hi"}, "x", strings.Repeat("c", tools.MaxIDLen)},
		"nowhere":            {tools.Call{Session: "s1"}, args{"content": "hi"}, "", ""},
	} {
		o, send := newMessages(t)
		res := send(tt.call, tt.args)
		if res.IsError || !res.Silent || res.ForUser != "" || res.ForLLM != "Message sent to "+tt.channel+":"+tt.chatID {
			t.Errorf("%s: %+v", name, res)
		}
		for _, m := range o.sent {
			if m.Channel != tt.channel || m.ChatID != tt.chatID || m.Text != "hi" || m.Session != "s1" {
				t.Errorf("%s: sent %+v", name, m)
			}
		}
		if len(o.sent) != 1 {
			t.Errorf("%s: %d sent", name, len(o.sent))
		}
	}
}

func TestMessageFails(t *testing.T) {
	o, send := newMessages(t)
	for name, a := range map[string]args{"empty": {"content": " \n"}, "no content": {}, "chat without channel": {"content": "x", "chat_id": "1"}, "wrong type": {"content": 1}} {
		if res := send(tools.Call{}, a); tools.CodeOf(res.Err) != tools.CodeInvalidArguments {
			t.Errorf("%s: %+v", name, res)
		}
	}
	o.before = errors.New("the stream is full")
	res := send(tools.Call{}, args{"content": "x"})
	if !errors.Is(res.Err, o.before) || !res.IsError || res.ForLLM != "failed to send the message: the stream is full" || len(o.sent) != 0 {
		t.Errorf("%+v", res)
	}
	// It was sent although Send failed: the next attempt sends no second message.
	o.before, o.after = nil, errors.New("no acknowledgement")
	if res := send(tools.Call{}, args{"content": "x"}); !res.IsError {
		t.Errorf("%+v", res)
	}
	o.after = nil
	if res := send(tools.Call{}, args{"content": "x"}); res.IsError || len(o.sent) != 1 {
		t.Errorf("%+v, %d sent", res, len(o.sent))
	}
}

// The key is the same for the same text, call and target, and otherwise different.
func TestMessageKeys(t *testing.T) {
	o, send := newMessages(t)
	hi := args{"content": "hi"}
	first := tools.Call{ID: "1", Session: "s", AgentID: "a", Channel: "c", ChatID: "d"}
	for range 3 {
		send(first, hi)
	}
	if len(o.sent) != 1 {
		t.Fatalf("three attempts are %d messages", len(o.sent))
	}
	for name, other := range map[string]tools.Call{
		"id": {ID: "2", Session: "s", AgentID: "a", Channel: "c", ChatID: "d"}, "session": {ID: "1", Session: "t", AgentID: "a", Channel: "c", ChatID: "d"},
		"agent": {ID: "1", Session: "s", AgentID: "b", Channel: "c", ChatID: "d"}, "channel": {ID: "1", Session: "s", AgentID: "a", Channel: "x", ChatID: "d"},
		"chat": {ID: "1", Session: "s", AgentID: "a", Channel: "c", ChatID: "x"}, "shifted": {ID: "1", Session: "s", AgentID: "ac", Channel: "d", ChatID: ""},
	} {
		before := len(o.sent)
		send(other, hi)
		if len(o.sent) != before+1 {
			t.Errorf("another %s is no other message", name)
		}
	}
	before := len(o.sent)
	send(first, args{"content": "hello"})
	if len(o.sent) != before+1 {
		t.Error("another text is no other message")
	}
}
