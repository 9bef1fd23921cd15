package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// route puts the notification of a completion or report into the outbox. Its ID
// derives from the subject, so a redelivery of the event causes no second one.
func (n *Notifier) route(ctx context.Context, d *consume.Delivery) error {
	tokens := n.bus.Split(d.Subject)
	if len(tokens) != 3 {
		return consume.Reject(consume.CodeUndecodable, fmt.Errorf("subject %q", d.Subject))
	}
	kind, session, call := channel.KindResult, tokens[1], tokens[2]
	if tokens[0] == channel.KindCompletion {
		kind = channel.KindCompletion
	}
	event, err := tools.DecodeResult(d.Body)
	if err == nil && (!tools.IsToken(session) || event.ID != "" && event.ID != call && tools.Token(event.ID) != call || event.Outcome != "" && !event.Outcome.Valid()) {
		err = fmt.Errorf("the message on %q is not a result of that call", d.Subject)
	}
	if err != nil && tokens[0] == "report" { // no worker makes such a copy, and a flood of them would push out real letters
		reportsDropped.Add(1)
		return nil
	}
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	// Permissions apply to the subject; the body may contain any session.
	if event.Session != "" && tools.Token(event.Session) != session {
		event.Session = session
	}
	completed := n.retryConversation(d, n.addCompletion(ctx, kind, session, call, event))
	text := userText(kind, event)
	if text == "" || time.Since(d.Published) > maxAge {
		return completed
	}
	id := fmt.Sprintf("%s.%s.%s", kind, session, call)
	if event.Error != nil && event.Error.Code == tools.CodeGivenUp {
		// An operator may retry the call, and its next result needs another ID.
		id = fmt.Sprintf("%s.%d", id, d.Sequence)
	}
	notification := channel.Notification{
		ID:   id,
		Kind: kind, Session: event.Session, Call: event.ID, Tool: event.Tool,
		Text: text, IsError: event.IsError, At: d.Published.UTC(), Channel: event.Channel, ChatID: event.ChatID,
	}
	if event.Markdown && text == event.ForUser {
		notification.Format = channel.FormatMarkdown
	}
	if job, ok := jobName(event); ok && !event.IsError { // the text of a failure names the job
		notification = notification.WithNote("from the " + job)
	}
	placed, err := n.setChannel(ctx, session, &notification)
	if err != nil {
		return err
	}
	return errors.Join(n.putPlaced(ctx, notification, placed || kind == channel.KindCompletion || bus.IsScheduled(event.Action)), completed)
}

// putPlaced is put for a text that is only for its caller if it has no place: a console that shows
// everything gets it then, but no chat.
func (n *Notifier) putPlaced(ctx context.Context, notification channel.Notification, placed bool) error {
	if !placed && !n.showsAll() {
		return nil
	}
	return n.put(ctx, notification, !placed)
}

// showsAll reports whether the default channel also gets the results that only their caller
// needs: the console of a process, or a file in its place, shows what happens, but a chat is for its users, whatever
// its name is.
func (n *Notifier) showsAll() bool {
	switch n.cfg.Channels[n.cfg.Default].(type) {
	case *channel.Console:
		return true
	case channel.Receiving, *channel.HTTP:
		return false
	}
	return n.cfg.Default == "console"
}

// userText returns the text of the event's notification, or "" for none.
func userText(kind string, e tools.ResultEvent) string {
	// No caller waits for background work, so a failure is always reported.
	background := kind == channel.KindCompletion || bus.IsScheduled(e.Action)
	switch {
	case e.IsError && background:
		what, reason := e.Tool, e.ForUser
		job, isJob := jobName(e)
		if isJob {
			what = "The " + job
		}
		if strings.TrimSpace(reason) != "" {
			if !isJob {
				return reason
			}
			return fmt.Sprintf("%s did not succeed (%s):%s\n%s", what, e.Outcome, errorDetail(reason, e.Error), reason)
		}
		reason = e.ForLLM
		if e.Error != nil && (e.Error.Code != tools.CodeToolFailed || reason == "") { // otherwise, the tool's own text is better
			reason = e.Error.Message
		}
		return fmt.Sprintf("%s did not succeed (%s): %s", what, e.Outcome, tools.Excerpt(reason, 2000))
	case kind == channel.KindCompletion && e.Delivery == tools.DeliverParent:
		return "" // a failure is reported above
	case kind == channel.KindResult && e.Action == tools.ActionAgent:
		return "" // the agent loop that made the call answers the user
	case e.Silent, strings.TrimSpace(e.ForUser) == "":
		return ""
	case e.Action == bus.Heartbeat && (strings.TrimSpace(e.ForUser) == tools.HeartbeatOK || strings.TrimSpace(e.ForLLM) == tools.HeartbeatOK):
		return ""
	}
	return e.ForUser
}

// errorDetail returns the error message if the text does not contain it, such as
// the exit code of a command.
func errorDetail(text string, err *tools.EventError) string {
	if err == nil || strings.Contains(text, strings.TrimSpace(err.Message)) {
		return ""
	}
	return " " + tools.Excerpt(err.Message, 500)
}

// jobName returns the name of the schedule that made the call.
func jobName(e tools.ResultEvent) (job string, ok bool) {
	name, ok := cron.ParseCallID(e.ID)
	if !ok || !bus.IsScheduled(e.Action) {
		return "", false
	}
	return scheduleName(e.Action, name), true
}

// scheduleName names a schedule in texts for users.
func scheduleName(kind, name string) string {
	if kind == bus.Cron {
		kind = "cron job"
	}
	return kind + " " + name
}

// setChannel sets the channel of a notification, which has that of its call: that channel, unless it names the
// chat of another session, otherwise the session's last channel, otherwise the default. If the
// call's channel has no consumer, it sets the default channel and adds a note. placed is false
// if neither the call nor its session has a channel.
func (n *Notifier) setChannel(ctx context.Context, session string, to *channel.Notification) (placed bool, err error) {
	name, chat := to.Channel, to.ChatID
	to.Channel, to.ChatID = n.cfg.Default, ""
	switch name {
	case "":
		name, chat, err = n.lastChannel(ctx, session)
	case tools.LastChannel:
		name, chat, err = n.lastChannel(ctx, "")
	default:
		var owner string
		if owner, err = n.owner(ctx, session, name, chat); err == nil && owner != "" && owner != session {
			n.log.Warn().Str("session", session).Str("channel", tools.Excerpt(name, 64)).Msg("a call named the chat of another session; its " +
				"notification does not go there")
			name, chat, err = n.lastChannel(ctx, session)
		}
	}
	if err != nil || name == "" {
		return false, err
	}
	channel := tools.Token(name)
	ok, err := n.IsServed(ctx, channel)
	switch {
	case err != nil:
		return false, err
	case ok:
		to.Channel, to.ChatID = channel, chat
	default:
		*to = to.WithNote(n.noConsumer(name))
	}
	return true, nil
}

// owner returns the session that has a chat, or "" if none has it. The chats that the
// operator lists for a channel belong to every session, and a chat whose users write to the
// agent belongs to the session of their messages.
func (n *Notifier) owner(ctx context.Context, session, name, chat string) (string, error) {
	if limited, ok := n.cfg.Channels[tools.Token(name)].(channel.Receiving); ok && limited.ListsChats() || session == tools.TokenOf(name+"-"+chat) {
		return session, nil
	}
	if chat == "" || n.cfg.Facts == nil {
		return "", nil
	}
	return state.LastSession(ctx, n.cfg.Facts, state.Channel{Name: name, ChatID: chat})
}

// CheckChat returns a *tools.Error unless the chat is one of the session, or the operator
// lists it for the channel.
func (n *Notifier) CheckChat(ctx context.Context, session, name, chat string) error {
	session = tools.TokenOf(session)
	owner, err := n.owner(ctx, session, name, chat)
	if err == nil && chat != "" && owner != session && n.cfg.Facts != nil {
		err = tools.Errorf(tools.CodeInvalidArguments, "this session has no chat %q on the channel %q, and the channel lists no chats for "+
			"all sessions", tools.Excerpt(chat, 80), tools.Excerpt(name, 64))
	}
	return err
}

// noConsumer returns the note that a channel has no consumer.
func (n *Notifier) noConsumer(channel string) string {
	const shown = 10
	known := sortedNames(n.cfg.Channels)
	more := ""
	if len(known) > shown {
		known, more = known[:shown], ", ..."
	}
	return fmt.Sprintf("for channel %q, which has no consumer; channels here: %s%s", tools.Excerpt(channel, 64), strings.Join(known, ", "), more)
}

// lastChannel looks up the session's last channel. If there is none, or it does not send to its last chat, it returns "".
func (n *Notifier) lastChannel(ctx context.Context, session string) (name, chat string, err error) {
	if n.cfg.Facts == nil {
		return "", "", nil
	}
	last, err := state.LastChannel(ctx, n.cfg.Facts, session)
	if err != nil {
		return "", "", err
	}
	if limited, ok := n.cfg.Channels[tools.Token(last.Name)].(channel.Receiving); ok {
		if refused := limited.CheckChat(last.ChatID); refused != nil {
			n.log.Warn().Err(refused).Str("session", session).Msg("the last channel does not send to its last chat; using the default channel")
			return "", "", nil
		}
	}
	return last.Name, last.ChatID, nil
}

// put stores a notification in the outbox. It cuts a text that is too large for the bus. aside is as for
// bus.AsideHeader.
func (n *Notifier) put(ctx context.Context, notification channel.Notification, aside bool) error {
	if notification.At.IsZero() {
		notification.At = time.Now().UTC()
	}
	for cut := false; ; {
		body, err := bus.Encode(notification)
		if err != nil {
			return consume.Reject(consume.CodeUndecodable, err)
		}
		m := bus.Message{Subject: n.notifySubject(notification), Body: body, Key: notification.ID, Same: isStored(notification),
			Header: nats.Header{bus.OnceHeader: {"1"}}}
		if aside {
			m.Header.Set(bus.AsideHeader, "1")
		}
		tracing.Add(ctx, m.Header)
		_, err = n.bus.Publish(ctx, m)
		switch {
		case errors.Is(err, bus.ErrTooLarge) && len(notification.Text) > 1024:
			notification.Text = tools.Excerpt(notification.Text, len(notification.Text)/2)
			if !cut {
				notification, cut = notification.WithNote("cut, because it was too long for the bus"), true
			}
			continue
		case errors.Is(err, bus.ErrTooLarge) && notification.Approval != nil && notification.Approval.Args != "":
			short := *notification.Approval // the text of the question has their start too
			short.Args = ""
			notification.Approval = &short
			continue
		case errors.Is(err, bus.ErrTooLarge): // it has a name of a tool, for example, as long as a message
			return consume.Reject("too_large", err)
		case errors.Is(err, bus.ErrFull) && n.wasDelivered(ctx, notification): // an earlier attempt stored it
			return nil
		case errors.Is(err, bus.ErrFull):
			return consume.RetryAfter(30*time.Second, err)
		}
		return err
	}
}

// Send puts a message to a user into the outbox and returns it with its channel.Channel
// and ChatID. If it names no channel, it goes where a result of its session would
// go. The message is durable when Send returns. A second one with the same ID is
// dropped. If the channel is one of this process and does not send to the chat, the error
// is a *tools.Error.
func (n *Notifier) Send(ctx context.Context, message channel.Notification) (channel.Notification, error) {
	return n.send(ctx, message, true)
}

// SendOutput is Send for the output of a tool that an agent called. Like the result of a
// call, it is only for the caller if it has no place of its own.
func (n *Notifier) SendOutput(ctx context.Context, output channel.Notification) error {
	_, scheduled := cron.ParseCallID(output.Call)
	_, err := n.send(ctx, output, scheduled)
	return err
}

// Place returns the channel and the chat to which Send would send a message now.
func (n *Notifier) Place(ctx context.Context, message channel.Notification) (channel.Notification, error) {
	_, err := n.setChannel(ctx, tools.Call{Session: message.Session}.SessionToken(), &message)
	message.ChatID = chatOf(n.cfg.Channels[message.Channel], message.ChatID)
	return message, err
}

// send sends a message. forUser says that it also has a place if it names none.
func (n *Notifier) send(ctx context.Context, message channel.Notification, forUser bool) (channel.Notification, error) {
	if message.ID == "" || strings.TrimSpace(message.Text) == "" {
		return channel.Notification{}, errors.New("send message: it has no id or no text")
	}
	message.Kind = channel.KindMessage
	placed, err := n.setChannel(ctx, tools.Call{Session: message.Session}.SessionToken(), &message)
	if limited, ok := n.cfg.Channels[message.Channel].(channel.Receiving); ok && err == nil {
		if refused := limited.CheckChat(message.ChatID); refused != nil {
			return channel.Notification{}, tools.Errorf(tools.CodeInvalidArguments, "%v", refused)
		}
	}
	if err == nil {
		err = n.putPlaced(ctx, message, placed || forUser)
	}
	if err != nil {
		return channel.Notification{}, fmt.Errorf("send message: %w", err)
	}
	return message, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
