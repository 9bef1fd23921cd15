package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Inbox makes the messages of one channel calls of the agent. Each chat is a session.
type Inbox struct {
	// Transcriber makes texts of voice messages. Nil means that the agent is told that it
	// cannot hear them.
	Transcriber *channel.Transcriber

	bus      *bus.Bus
	notifier *notify.Notifier
	files    *offload.Offloader
	log      zerolog.Logger
	channel  string
	drafts   drafts // nil if the channel cannot show an answer as it grows
	toAll    bool   // channel.Receiving.SendsToAll

	stop    chan struct{}
	showing sync.WaitGroup
	stopped sync.Once
}

// NewInbox returns the inbox of the channel with a name. The notifier sends the replies of
// the inbox itself. store gets the files that users send.
func NewInbox(b *bus.Bus, notifier *notify.Notifier, store offload.Store, name string, ch channel.Channel, log zerolog.Logger) *Inbox {
	to, ok := ch.(channel.Receiving)
	return &Inbox{
		bus: b, notifier: notifier, files: offload.NewOffloader(store, offload.Config{}), log: log, channel: name,
		drafts: draftsOf(b, notifier, name, ch), toAll: ok && to.SendsToAll(), stop: make(chan struct{}),
	}
}

// Close ends the edits of drafts, and waits for them.
func (in *Inbox) Close() {
	in.stopped.Do(func() { close(in.stop) })
	in.showing.Wait()
}

// maxMessageID is the longest accepted id of a message with that of its chat, in bytes.
const maxMessageID = 1000

// Accept implements channel.Inbox. The id of the call follows from that of the message, so
// a message that arrives again changes nothing.
func (in *Inbox) Accept(ctx context.Context, m channel.Incoming) (channel.Accepted, error) {
	if len(m.ID)+len(m.ChatID) > maxMessageID {
		return channel.Accepted{}, tools.Errorf(tools.CodeInvalidArguments, "the ids of the message and of its chat are too long")
	}
	session := in.channel + "-" + m.ChatID
	if m.Voice != nil {
		m = in.hear(ctx, m)
	}
	command, rest := Command(m.Text)
	args := map[string]any{"prompt": m.Prompt(rest)}
	switch command {
	case "":
		if answered, err := in.answer(ctx, session, m); answered || err != nil {
			return channel.Accepted{}, err
		}
	case "/start":
		return channel.Accepted{}, in.reply(ctx, session, m, "Write to me, and the agent answers.\n"+Help)
	case "/stop":
		return channel.Accepted{}, in.stopRuns(ctx, session, m)
	case "/new":
		if rest == "" {
			return channel.Accepted{}, in.reply(ctx, session, m, "Write /new and a message: it begins a new conversation, in which the agent "+
				"does not know the earlier messages.")
		}
		args["fresh"] = true
	case "/help":
		return channel.Accepted{}, in.reply(ctx, session, m, Help)
	default:
		return channel.Accepted{}, in.reply(ctx, session, m, UnknownCommand(command))
	}
	if len(m.Files) > 0 {
		ids, refused, err := in.attach(ctx, session, m)
		if err != nil {
			return channel.Accepted{}, temporary(err)
		}
		m.Context = strings.TrimSpace(m.Context + "\n\n" + refused)
		args["prompt"], args["files"] = m.Prompt(rest), ids
	}
	body, err := bus.Encode(args)
	if err != nil {
		return channel.Accepted{}, tools.Errorf(tools.CodeInvalidArguments, "the message is not text: %v", err)
	}
	call := tools.Call{ID: MessageID(m.ID), Session: session, Tool: agent.AgentTool, Args: body, Channel: in.channel, ChatID: m.ChatID}
	accepted, err := rpc.Enqueue(ctx, in.bus, bus.AgentQueue, call)
	if err != nil {
		return channel.Accepted{}, err
	}
	in.log.Info().Str("channel", in.channel).Str("session", call.SessionToken()).Str("call", call.IDToken()).Bool("repeated", accepted.Duplicate).Msg("accepted a message")
	if !accepted.Duplicate && in.drafts != nil {
		in.showing.Go(func() { in.showDraft(call) })
	}
	return channel.Accepted{ID: call.ID, Session: session}, nil
}

// temporary hides a code that the receiver would take for a final rejection.
func temporary(err error) error { return errors.New(err.Error()) }

// MessageID returns the ID of the call that a message with an ID becomes.
func MessageID(id string) string { return "message-" + id }

// reply sends a message of the worker to the chat. What it answers does not reach the agent.
func (in *Inbox) reply(ctx context.Context, session string, m channel.Incoming, text string) error {
	if len(m.Files) > 0 {
		text += "\nThe agent did not get the file: send it with another text."
	}
	_, err := in.notifier.Send(ctx, channel.Notification{
		ID:      fmt.Sprintf("reply.%s.%s", tools.TokenOf(session), tools.TokenOf(m.ID)),
		Session: session, Call: MessageID(m.ID), Channel: in.channel, ChatID: m.ChatID, Text: text,
	})
	return err
}

// stopRuns cancels the runs of a session that have not ended. The message may arrive again
// when other runs have started, so it stores once which runs it means.
func (in *Inbox) stopRuns(ctx context.Context, session string, m channel.Incoming) error {
	token := tools.TokenOf(session)
	list, err := task.List(ctx, in.bus, token)
	if err != nil {
		return temporary(err)
	}
	runs := []string{}
	for _, t := range list.Tasks {
		if t.Tool == agent.AgentTool && t.EndedAt.IsZero() {
			runs = append(runs, t.ID)
		}
	}
	if runs, err = task.StoreStop(ctx, in.bus, tools.CallKey{Session: token, ID: tools.TokenOf(m.ID)}, runs); err != nil {
		return temporary(err)
	}
	for _, run := range runs {
		if err := task.CancelOpen(ctx, in.bus, tools.CallKey{Session: token, ID: run}, "the user"); err != nil {
			return temporary(err)
		}
	}
	text := "Stopped."
	if len(runs) == 0 {
		text = "Nothing is running."
	}
	ended := func(t task.Task) bool { return !t.EndedAt.IsZero() } // these are omitted first
	if list.Incomplete || list.Omitted > 0 && !slices.ContainsFunc(list.Tasks, ended) {
		text = "A run may go on: this session has too many calls to find all of its runs."
	}
	return in.reply(ctx, session, m, text)
}

// answer answers the oldest question of a chat if the message is a yes or a no, and reports
// whether it was one. The message may arrive again when another question is open, so it
// stores once which question it means.
func (in *Inbox) answer(ctx context.Context, session string, m channel.Incoming) (answered bool, err error) {
	approve, reason, ok := YesOrNo(m.Text)
	if !ok || m.Context != "" {
		return false, nil
	}
	waiting, err := approvals.List(ctx, in.bus, "*")
	if err != nil {
		return false, temporary(err)
	}
	slices.SortStableFunc(waiting, func(a, b approvals.Approval) int { return a.AskedAt.Compare(b.AskedAt) })
	var keys []string
	for _, a := range waiting {
		if shown, err := in.shows(ctx, a, m.ChatID, in.toAll); err != nil {
			return false, temporary(err)
		} else if shown {
			keys = append(keys, channel.ApprovalKey(a.Session, a.ID), a.Session, a.ID, a.Tool)
			break
		}
	}
	if keys, err = task.StoreStop(ctx, in.bus, tools.CallKey{Session: tools.TokenOf(session), ID: tools.TokenOf(m.ID)}, keys); err != nil {
		return false, temporary(err)
	}
	if len(keys) == 0 {
		return false, nil
	}
	by := in.channel + ":" + m.ChatID
	text, err := in.Decide(ctx, channel.Decision{Key: keys[0], ChatID: m.ChatID, Approve: approve, Reason: reason, By: by})
	if err != nil {
		return false, err
	}
	if len(keys) == 4 { // an earlier version stored only the first
		r, err := task.ReadRecord(ctx, in.bus, tools.CallKey{Session: keys[1], ID: keys[2]})
		if err != nil {
			return false, temporary(err)
		}
		if r.Answer != nil && r.Answer.Approve == approve && r.Answer.By == tools.Excerpt(by, 200) { // this message, perhaps when it arrived before
			text = decided(approve, keys[3])
		}
	}
	return true, in.reply(ctx, session, m, text)
}

// shows reports whether the question of a call is shown in a chat of this channel. toAll says that what has no chat is, too:
// its button was there, or the channel sends it to all.
func (in *Inbox) shows(ctx context.Context, a approvals.Approval, chat string, toAll bool) (bool, error) {
	to, err := in.notifier.Place(ctx, channel.Notification{Session: a.Session, Channel: a.Channel, ChatID: a.ChatID})
	return to.Channel == in.channel && (to.ChatID == chat || to.ChatID == "" && toAll), err
}

// Name implements channel.Inbox.
func (in *Inbox) Name() string { return in.channel }

// Decide implements channel.Inbox: it answers a question that was shown in a chat of this channel.
func (in *Inbox) Decide(ctx context.Context, d channel.Decision) (string, error) {
	waiting, err := approvals.List(ctx, in.bus, "*")
	if err != nil {
		return "", temporary(err)
	}
	for _, a := range waiting {
		if channel.ApprovalKey(a.Session, a.ID) != d.Key {
			continue
		}
		if a.Channel != "" && a.Channel != tools.LastChannel { // otherwise it may be shown elsewhere by now
			if shown, err := in.shows(ctx, a, d.ChatID, true); err != nil {
				return "", temporary(err)
			} else if !shown {
				return notOpen, nil
			}
		}
		_, err := approvals.Answer(ctx, in.bus, tools.CallKey{Session: a.Session, ID: a.ID}, task.Answer{Approve: d.Approve, By: d.By, Reason: d.Reason})
		switch {
		case err != nil && tools.CodeOf(err) != tools.CodeInvalidArguments && tools.CodeOf(err) != tools.CodeNotFound:
			return "", temporary(err)
		case err != nil:
			return err.Error(), nil
		}
		return decided(d.Approve, a.Tool), nil
	}
	text := notOpen // perhaps since this decision arrived: a button is pressed twice, and a bridge repeats what got no answer
	err = task.ListRecords(ctx, in.bus, "*", func(r task.Record) {
		if k := r.Key(); r.Answer != nil && channel.ApprovalKey(k.Session, k.ID) == d.Key {
			text = approvals.AlreadyAnswered(*r.Answer).Error()
		}
	})
	if err != nil {
		return "", temporary(err)
	}
	return text, nil
}

const notOpen = "This question has been answered, or its time has passed."

func decided(approve bool, tool string) string {
	if approve {
		return "✅ Approved: " + tool + " runs."
	}
	return "❌ Rejected: " + tool + " does not run."
}
