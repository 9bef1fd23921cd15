package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// bridgeStage is a process with a bridged channel, and what its bridge asks.
type bridgeStage struct {
	*testing.T
	bus      *bus.Bus
	notifier *notify.Notifier
}

func newBridgeStage(t *testing.T, to channel.Receiving, open func(channel.Artifact) (*channel.Document, error)) *bridgeStage {
	t.Helper()
	b := bustest.New(t)
	cfg := notify.Config{Default: "team", Channels: map[string]channel.Channel{"team": to, "console": channel.NewConsole(new(bytes.Buffer))}, Log: bustest.Log(t)}
	if open != nil {
		cfg.OpenFile = func(_ context.Context, _ string, a channel.Artifact) (*channel.Document, error) { return open(a) }
	}
	n, err := notify.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	store, err := disk.Open(t.TempDir(), offload.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	in := NewInbox(b, n, store, "team", to, bustest.Log(t))
	t.Cleanup(in.Close)
	bustest.Run(t, func(ctx context.Context) error { return in.ServeBridge(ctx, to) })
	bustest.Run(t, n.Run)
	s := &bridgeStage{t, b, n}
	bustest.WaitUntil(t, "the service", func() bool {
		_, err := rpc.Request(t.Context(), b, b.RPC("message", "team"), struct{}{})
		return err == nil
	})
	return s
}

// ask sends a request and returns the answer, or the code of the error.
func (s *bridgeStage) ask(request string) string {
	s.Helper()
	answer, err := rpc.Request(s.Context(), s.bus, s.bus.RPC("message", "team"), json.RawMessage(request))
	if err != nil {
		return tools.CodeOf(err)
	}
	return string(answer)
}

func (s *bridgeStage) want(request, want string) {
	s.Helper()
	if got := s.ask(request); got != want {
		s.Errorf("%s:\n got %s\nwant %s", request, got, want)
	}
}

func newBridge(t *testing.T, chat, allow, style string) *channel.Bridge {
	t.Helper()
	bridge, err := channel.NewBridge(chat, allow, style)
	if err != nil {
		t.Fatal(err)
	}
	return bridge
}

// A bridge hands in the messages of allowed chats, once each, with their files, and threads are
// chats of their own.
func TestBridgeHandsInMessages(t *testing.T) {
	t.Parallel()
	s := newBridgeStage(t, newBridge(t, "C1", "C2;*", ""), nil)
	s.want(`{}`, `{"chat":"C1","chats":{"C1":"","C2":""}}`)
	for range 2 {
		s.want(`{"id":"m1","chat_id":"C2","from":"Ann","text":" hello ","position":"7"}`, `{"id":"message-m1","session":"team-C2"}`)
	}
	s.want(`{"id":"m1","chat_id":"C2","text":"another text"}`, tools.CodeMismatch)
	s.want(`{"id":"m2","chat_id":"C1/t9","text":"in a thread"}`, `{"id":"message-m2","session":"team-C1/t9"}`)
	s.want(`{"chat_id":"C1","position":"3"}`, `{}`)
	s.want(`{}`, `{"chat":"C1","chats":{"C1":"3","C2":"7"}}`)
	for _, refused := range []string{`{"id":"m3","chat_id":"C3","text":"hi","position":"1"}`, `{"id":"m3","chat_id":"*","text":"hi"}`, `{"id":"m3","text":"hi"}`, `{"id":"m3","chat_id":"C3/C1","text":"hi"}`, `{"chat_id":"C3","position":"1"}`} {
		s.want(refused, codeNotAllowed)
	}
	for _, wrong := range []string{`{"id":"m4","chat_id":"C1"}`, `[]`, `{"id":"` + strings.Repeat("x", 2000) + `","chat_id":"C1","text":"x"}`} {
		s.want(wrong, tools.CodeInvalidArguments)
	}
	s.want(`{"id":"m5","chat_id":"C1","text":"see","files":[{"name":"../a.txt","data":"aGVsbG8="},{"name":"b.mp4","problem":"it is too large"}]}`, `{"id":"message-m5","session":"team-C1"}`)
	call, err := s.bus.Last(t.Context(), bus.Calls, s.bus.Call(bus.AgentQueue, "agent", "team-C1", "message-m5"))
	if err != nil || !strings.Contains(string(call.Body), `"files":["`) || !strings.Contains(string(call.Body), "b.mp4") || !strings.Contains(string(call.Body), "it is too large") {
		t.Errorf("call %s, %v", call.Body, err)
	}
}

// What a bridge says of its network is what a worker fails in, until the bridge says to any worker that it works.
func TestBridgeReportsFailures(t *testing.T) {
	t.Parallel()
	b, to := bustest.New(t), newBridge(t, "C1", "", "")
	registers := make([]trouble.Register, 2) // of two workers
	for i := range registers {
		in := NewInbox(b, nil, nil, "team", to, bustest.Log(t))
		t.Cleanup(in.Close)
		bustest.Run(t, func(ctx context.Context) error { return in.ServeBridge(registers[i].With(ctx), to) })
	}
	for _, test := range []struct{ request, want string }{
		{`{"receiving":"the token\nis refused"}`, "[{receiver_failing team its program says: the token is refused}]"},
		{`{"receiving":"","sending":"502"}`, "[{channel_failing team its program says: 502}]"},
		{`{"sending":""}`, "[]"},
	} {
		asked := false
		bustest.WaitUntil(t, "both workers to have heard "+test.request, func() bool {
			if !asked || test.want != "[]" {
				_, err := rpc.Request(t.Context(), b, b.RPC("message", "team"), json.RawMessage(test.request))
				asked = err == nil
			}
			for i := range registers {
				failures := []struct{ Kind, Name, Error string }{}
				for _, f := range registers[i].List() {
					failures = append(failures, struct{ Kind, Name, Error string }{string(f.Kind), f.Name, f.Error})
				}
				if fmt.Sprint(failures) != test.want {
					return false
				}
			}
			return true
		})
	}
}

// A bridge learns that the run of a message has ended if no answer follows.
func TestBridgeLearnsOfEnds(t *testing.T) {
	t.Parallel()
	s := newBridgeStage(t, newBridge(t, "C1", "", ""), nil)
	for i, result := range []*tools.Result{nil, {UserContent: tools.UserContent{ForUser: "An answer."}}, {ForLLM: "It has said all."}, tools.Failure(tools.Errorf(tools.CodeCancelled, "cancelled"))} {
		call := tools.Call{ID: MessageID(fmt.Sprint("m", i)), Session: "team-C1", Tool: "agent"}
		if result == nil {
			continue // it runs
		}
		m, err := task.EventMessage(s.bus, task.ResultKind, tools.CallKey{Session: call.Session, ID: call.ID}, tools.NewResultEvent(call, result), []string{"test"})
		if err == nil {
			_, err = s.bus.Publish(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`{}`, `{}`, `{"outcome":"completed"}`, `{"outcome":"cancelled"}`} {
		s.want(fmt.Sprintf(`{"chat_id":"C1","unanswered":"m%d"}`, i), want)
	}
	s.want(`{"chat_id":"C3","unanswered":"m2"}`, codeNotAllowed)
}

// The notifications of a bridged channel wait for the bridge, which gets their texts in the markup
// of its network, without what could reach others, and their files in pieces.
func TestBridgeDelivers(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 60_000)
	closed := 0
	s := newBridgeStage(t, newBridge(t, "C1", "C2", "discord"), func(a channel.Artifact) (*channel.Document, error) {
		if a.Digest != "right" {
			return nil, tools.Errorf(tools.CodeNotFound, "no such artifact")
		}
		return &channel.Document{Name: "report.csv", Size: int64(len(content)), Content: bytes.NewReader(content), Close: func() error { closed++; return nil }, Command: "get it"}, nil
	})
	if _, err := s.notifier.Send(t.Context(), channel.Notification{ID: "n1", Channel: "team", ChatID: "C2", Text: "**hi** [x](https://evil.example)", Format: channel.FormatMarkdown}); err != nil {
		t.Fatal(err)
	}
	stored, err := s.bus.Last(t.Context(), bus.Outbox, s.bus.Notify("team", "C2"))
	if err != nil || stored.Sequence == 0 {
		t.Fatal(stored, err)
	}
	s.want(`{"prepare":`+string(stored.Body)+`}`, `{"chat_id":"C2","parts":["**hi** [x](<https://evil.example>) (evil.example)"],"markup":true}`)
	s.want(`{"prepare":{"text":"a *b*"}}`, `{"chat_id":"C1","parts":["a \\*b\\*"]}`)
	s.want(`{"prepare":{"text":"x","chat_id":"C9"}}`, "refused_chat")
	// The permissions of who published it are about the subject.
	s.want(`{"subject":"stevedore.notify.team.C2","prepare":{"text":"x"}}`, `{"chat_id":"C2","parts":["x"]}`)
	s.want(`{"subject":"stevedore.notify.team.-","prepare":{"text":"x"}}`, `{"chat_id":"C1","parts":["x"]}`)
	s.want(`{"subject":"stevedore.notify.team","prepare":{"text":"x","chat_id":"C2"}}`, `{"chat_id":"C2","parts":["x"]}`)
	s.want(`{"subject":"stevedore.notify.team.C1","prepare":{"text":"x","chat_id":"C2"}}`, consume.CodeUndecodable)
	s.want(`{"subject":"stevedore.notify.other.C1","prepare":{"text":"x","chat_id":"C1"}}`, consume.CodeUndecodable)
	s.want(`{"prepare":{"text":""}}`, consume.CodeUndecodable)
	s.want(`{"prepare":{"text":"x","artifact":{"artifact_id":"a","digest":"wrong"}}}`, `{"chat_id":"C1","parts":["x\n(the file a cannot be sent: not found)"]}`)
	with := `{"text":"x","artifact":{"artifact_id":"a","digest":"right"}}`
	s.want(`{"prepare":`+with+`}`, `{"chat_id":"C1","parts":["x"],"file":{"name":"report.csv","size":600000,"command":"get it"}}`)
	var got []byte
	for len(got) < len(content) {
		var piece channel.BridgeFile
		if err := json.Unmarshal([]byte(s.ask(fmt.Sprintf(`{"file":%s,"offset":%d}`, with, len(got)))), &piece); err != nil || len(piece.Data) == 0 {
			t.Fatal(err)
		}
		got = append(got, piece.Data...)
	}
	if !bytes.Equal(got, content) {
		t.Error("the file differs")
	}
	s.want(`{"file":`+with+`,"offset":-1}`, tools.CodeNotFound)
	s.want(`{"file":{"text":"x"}}`, tools.CodeNotFound)
	if closed != 5 {
		t.Errorf("%d files closed", closed)
	}

	// What the bridge cannot deliver becomes a dead letter, once, and only of its channel.
	if _, err := s.bus.Publish(t.Context(), bus.Message{Subject: s.bus.Notify("other", ""), Body: []byte(`{"text":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	s.want(`{"reject":{"sequence":2,"code":"x","reason":"y"}}`, tools.CodeNotFound)
	letters := bustest.Subscribe(t, s.bus, "stevedore.dead.>")
	for range 2 {
		s.want(`{"reject":{"sequence":1,"attempts":3,"code":"channel_not_found","reason":"no such chat"}}`, `{}`)
	}
	var letter struct {
		Code, Reason, Subject string
		Attempts              int
	}
	msg, err := letters.NextMsg(bustest.Timeout)
	if err != nil || json.Unmarshal(msg.Data, &letter) != nil || letter.Code != "channel_not_found" || letter.Attempts != 3 || !strings.HasSuffix(letter.Reason, "no such chat") || msg.Subject != "stevedore.dead.notification.team" {
		t.Errorf("dead letter %+v, %v", letter, err)
	}
	if n := bustest.Messages(t, s.bus, bus.Outbox); n != 1 {
		t.Errorf("%d messages in the outbox", n)
	}
}

// Buttons of a bridge answer the questions of its chats, and of no other.
func TestBridgeDecides(t *testing.T) {
	t.Parallel()
	s := newBridgeStage(t, newBridge(t, "", "C1;C2", "slack"), nil)
	call := tools.Call{ID: "c", Session: "team-C1", Tool: "shell", Channel: "team", ChatID: "C1", Args: []byte("{}")}
	if _, err := task.Park(t.Context(), s.bus, task.Parked{Call: call, Queue: bus.DefaultQueue, State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	var prepared channel.Prepared
	if err := json.Unmarshal([]byte(s.ask(`{"prepare":{"chat_id":"C1","text":"May it run?","approval":{"session":"team-C1","id":"c","tool":"shell","deadline":"2099-01-01T00:00:00Z"}}}`)), &prepared); err != nil || prepared.Approval == "" {
		t.Fatal(prepared, err)
	}
	decide := func(chat string) string {
		return fmt.Sprintf(`{"chat_id":%q,"user":"U1","decide":{"key":%q,"approve":true}}`, chat, prepared.Approval)
	}
	s.want(decide("C3"), codeNotAllowed)
	s.want(decide("C2"), `{"text":"This question has been answered, or its time has passed."}`)
	s.want(decide("C1"), `{"text":"✅ Approved: shell runs."}`)
	if got := s.ask(decide("C1")); !strings.Contains(got, "the call was answered before: yes, at ") {
		t.Errorf("a button that is pressed again: %s", got)
	}
}

// A question of another channel is answered there, unless nothing delivers to that channel: then its
// question comes to the default one.
func TestBridgeDecidesNothingOfOtherChannels(t *testing.T) {
	t.Parallel()
	s := newBridgeStage(t, newBridge(t, "", "C1", "slack"), nil)
	park := func(id, channelName string) string {
		t.Helper()
		call := tools.Call{ID: id, Session: "s", Tool: "shell", Channel: channelName, Args: []byte("{}")}
		p := task.Parked{Call: call, Queue: bus.DefaultQueue, State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}
		if _, err := task.Park(t.Context(), s.bus, p); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"chat_id":"C1","decide":{"key":%q,"approve":true}}`, channel.ApprovalKey("s", id))
	}
	bustest.Consumers(t, s.bus, s.bus.ChannelConsumer("served"))
	s.want(park("a", "served"), `{"text":"This question has been answered, or its time has passed."}`)
	s.want(park("b", "gone"), `{"text":"✅ Approved: shell runs."}`)
	s.want(park("c", tools.LastChannel), `{"text":"✅ Approved: shell runs."}`)
}

// A program that reads a mailbox hands in mails of the addresses of the channel, and the notifier
// delivers the answers.
func TestMailsAreHandedIn(t *testing.T) {
	t.Parallel()
	mail, err := channel.NewEmail(channel.EmailConfig{Host: "mail.example.com", From: "bot@example.com", To: []string{"Ann <ann@example.com>"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newBridgeStage(t, mail, nil)
	s.want(`{}`, `{"chats":{"ann@example.com":""}}`)
	s.want(`{"id":"<m1@x>","chat_id":"Ann@Example.com","text":"hi"}`, `{"id":"message-<m1@x>","session":"team-ann@example.com"}`)
	s.want(`{"id":"<m2@x>","chat_id":"eve@example.com","text":"hi"}`, codeNotAllowed)
	s.want(`{"prepare":{"text":"x"}}`, tools.CodeInvalidArguments)
}

// The answer of a run grows on the subject of its channel.
func TestBridgeDrafts(t *testing.T) {
	t.Parallel()
	bridge := newBridge(t, "C1", "", "slack")
	b := bustest.New(t)
	shown := bustest.Subscribe(t, b, b.Draft("team"))
	d := draftsOf(b, nil, "team", bridge)
	call := tools.Call{ID: "c", Session: "team-C1", ChatID: "C1"}
	var got []string
	for _, draft := range []channel.Draft{{}, {Status: "⏳ shell"}, {Text: "**so** far", Status: "⏳ shell"}} {
		if err := d.show(t.Context(), call, draft); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.end(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		draft, _ := bustest.Next[channel.BridgeDraft](t, shown)
		if draft.Session != call.Session || draft.Call != call.ID || draft.ChatID != "C1" {
			t.Errorf("draft %+v", draft)
		}
		got = append(got, fmt.Sprint(draft.Text, " ", draft.Markup, " ", draft.Status, " ", draft.Done))
	}
	if want := []string{" false  false", "⏳ shell false ⏳ shell false", "*so* far\n(⏳ shell) true ⏳ shell false", " false  true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
