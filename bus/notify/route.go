package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// heartbeatOK is the reply of a heartbeat that has nothing to tell.
const heartbeatOK = "HEARTBEAT_OK"

// route puts what a result or completion tells the user into the outbox. Its
// key derives from the subject, so that a second delivery of the event is no
// second notification.
func (n *Notifier) route(ctx context.Context, d *bus.Delivery) error {
	if time.Since(d.Published) > n.cfg.MaxAge {
		return nil
	}
	tokens := n.bus.Split(d.Subject)
	if len(tokens) != 3 {
		return bus.Reject(bus.CodeUndecodable, fmt.Errorf("subject %q", d.Subject))
	}
	event, err := tools.DecodeResult(d.Body)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	kind, session, call := tokens[0], tokens[1], tokens[2]
	// The subject is what permissions are about; the body may say anything.
	if event.Session != "" && tools.Token(event.Session) != session {
		event.Session = session
	}
	text := told(kind, event)
	if text == "" {
		return nil
	}
	id := fmt.Sprintf("%s.%s.%s", kind, session, call)
	if event.Error != nil && event.Error.Code == tools.CodeGivenUp {
		// An operator may have it taken back and the call run again, and the
		// new answer is other news.
		id = fmt.Sprintf("%s.%d", id, d.Sequence)
	}
	notification := Notification{
		ID:   id,
		Kind: kind, Session: event.Session, Call: event.ID, Tool: event.Tool,
		Text: text, IsError: event.IsError, At: d.Published.UTC(),
	}
	if event.Markdown && text == event.ForUser {
		notification.Format = FormatMarkdown
	}
	if job, ok := jobOf(event); ok && !event.IsError { // a failure's text names it
		notification = notification.noted("from the " + job)
	}
	if err := n.address(ctx, session, event, &notification); err != nil {
		return err
	}
	return n.put(ctx, notification)
}

// told returns what the user gets to read of an event; nothing if empty.
func told(kind string, e tools.ResultEvent) string {
	// Nobody waits for background work, so its failure is told in any case.
	background := kind == KindCompletion || isScheduled(e.Action)
	switch {
	case e.IsError && background:
		what, reason := e.Tool, e.ForUser
		job, isJob := jobOf(e)
		if isJob {
			what = "The " + job
		}
		if strings.TrimSpace(reason) != "" {
			if !isJob {
				return reason
			}
			return fmt.Sprintf("%s did not succeed (%s):%s\n%s", what, e.Outcome, moreThan(reason, e.Error), reason)
		}
		reason = e.ForLLM
		if e.Error != nil && (e.Error.Code != tools.CodeToolFailed || reason == "") { // else what the tool said says more
			reason = e.Error.Message
		}
		return fmt.Sprintf("%s did not succeed (%s): %s", what, e.Outcome, tools.Excerpt(reason, 2000))
	case kind == KindResult && e.Action == tools.ActionAgent:
		return "" // the loop that made the call tells the user
	case e.Silent, strings.TrimSpace(e.ForUser) == "":
		return ""
	case e.Action == bus.Heartbeat && (strings.TrimSpace(e.ForUser) == heartbeatOK || strings.TrimSpace(e.ForLLM) == heartbeatOK):
		return "" // whatever its last tool had for the user
	}
	return e.ForUser
}

// moreThan is what an error says that the text for the user does not, such as the
// exit code of a command.
func moreThan(text string, err *tools.EventError) string {
	if err == nil || strings.Contains(text, strings.TrimSpace(err.Message)) {
		return ""
	}
	return " " + tools.Excerpt(err.Message, 500)
}

// scheduled is the id that a worker gives to the call of a tick: the schedule's
// kind and name, and the slot.
var scheduled = regexp.MustCompile(`^(?:heartbeat|cron)-([A-Za-z0-9_-]{1,64})-\d{8}T\d+Z(?:-\d+)?$`)

// jobOf names the schedule that made a call, because what its tool says does not.
func jobOf(e tools.ResultEvent) (job string, ok bool) {
	id := scheduled.FindStringSubmatch(e.ID)
	if id == nil || !isScheduled(e.Action) {
		return "", false
	}
	return fmt.Sprintf("%s job %s", e.Action, id[1]), true
}

// address finds the channel: the call's, else the session's last, else the
// default; what names a channel that nobody serves goes to the default as well,
// and says so.
func (n *Notifier) address(ctx context.Context, session string, e tools.ResultEvent, to *Notification) error {
	name, chat := e.Channel, e.ChatID
	switch name {
	case "":
		name, chat = n.lastChannel(ctx, session)
	case tools.LastChannel:
		name, chat = n.lastChannel(ctx, "")
	}
	if name == "" {
		to.Channel = n.cfg.Default
		return nil
	}
	channel := tools.Token(name)
	ok := n.cfg.Channels[channel] != nil
	if !ok {
		var err error
		if ok, err = n.served.by(ctx, channel); err != nil {
			return err
		}
	}
	if !ok {
		to.Channel = n.cfg.Default
		*to = to.noted(n.unserved(name))
		return nil
	}
	to.Channel, to.ChatID = channel, chat
	return nil
}

// unserved says that a channel is not there, and which ones are.
func (n *Notifier) unserved(channel string) string {
	const shown = 10
	known := sortedNames(n.cfg.Channels)
	more := ""
	if len(known) > shown {
		known, more = known[:shown], ", ..."
	}
	return fmt.Sprintf("meant for the channel %q, which nobody serves; served here: %s%s", tools.Excerpt(channel, 64), strings.Join(known, ", "), more)
}

// lastChannel asks the state; if that fails, the user is told on the default
// channel rather than not at all.
func (n *Notifier) lastChannel(ctx context.Context, session string) (name, chat string) {
	if n.cfg.LastChannels == nil {
		return "", ""
	}
	name, chat, err := n.cfg.LastChannels.LastChannel(ctx, session)
	if err != nil {
		n.log.Error().Err(err).Str("session", session).Msg("cannot look up the last channel; the default is used")
		return "", ""
	}
	return name, chat
}

// put stores a notification in the outbox. What is too large for the bus is
// cut: a user wants the start of it rather than nothing.
func (n *Notifier) put(ctx context.Context, notification Notification) error {
	for cut := false; ; {
		body, err := bus.Encode(notification)
		if err != nil {
			return bus.Reject(bus.CodeUndecodable, err)
		}
		m := bus.Message{Subject: n.bus.Notify(notification.Channel), Body: body, Key: notification.ID, Header: nats.Header{onceHeader: {"1"}}}
		_, err = n.bus.Publish(ctx, m)
		switch {
		case errors.Is(err, bus.ErrTooLarge) && len(notification.Text) > 1024:
			notification.Text = tools.Excerpt(notification.Text, len(notification.Text)/2)
			if !cut {
				notification, cut = notification.noted("cut, because it was too long for the bus"), true
			}
			continue
		case errors.Is(err, bus.ErrFull):
			return bus.RetryAfter(30*time.Second, err)
		}
		return err
	}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
