package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// draftTimeout bounds an edit of a draft. A delivery waits for draftWait, and then takes
	// the process that edits for dead.
	draftTimeout = 8 * time.Second
	draftWait    = draftTimeout + 2*time.Second
	draftPoll    = 50 * time.Millisecond
	// maxDraftAge is the age above which the answer is a new message, because chats notify
	// nobody of an edit.
	maxDraftAge = time.Minute
)

// draft is the record of the message of a chat that shows the answer of a call as it grows. It
// is in the bucket tasks under a key of the chat, so that whichever process delivers the answer
// edits that message.
//
// The record is changed by compare-and-set. A process that edits the message says so first. A
// process that delivers a notification for the chat waits for that edit. If the notification is
// the answer, it closes the draft, so that no edit follows, and replaces the message; otherwise,
// it removes the message, so that the answer comes below the notification.
type draft struct {
	Session string    `json:"session"`
	Call    string    `json:"call"`
	Message string    `json:"message,omitempty"` // its id; empty if there is none
	Since   time.Time `json:"since"`
	Editing bool      `json:"editing,omitempty"`
	Closed  bool      `json:"closed,omitempty"`

	revision uint64 // 0 if there is no record
}

func (d *draft) isOf(session, call string) bool {
	return d.Session == tools.TokenOf(session) && d.Call == tools.TokenOf(call)
}

// chatOf returns the chat to which a channel sends what names a chat or none.
func chatOf(to channel.Channel, chat string) string {
	if c, ok := to.(channel.Receiving); ok {
		return cmp.Or(chat, c.DefaultChat())
	}
	return chat
}

// changeDraft changes the record of a chat, and returns it with what it was before. change may
// be called several times; if it returns false, the record stays as it is.
func (n *Notifier) changeDraft(ctx context.Context, name, chat string, change func(d *draft) bool) (now, before draft, err error) {
	key := "draft." + name + "." + tools.Token(chat)
	for {
		before = draft{}
		m, err := n.bus.Entry(ctx, key)
		if err != nil {
			return now, before, fmt.Errorf("read the draft of a chat: %w", err)
		}
		_ = json.Unmarshal(m.Data, &before) // an invalid one is replaced
		before.revision = m.Sequence
		now = before
		if !change(&now) {
			return before, before, nil
		}
		body, _ := json.Marshal(now) // texts and a time do not fail
		now.revision, err = n.bus.PutEntry(ctx, key, body, before.revision, 0)
		if !errors.Is(err, bus.ErrConflict) {
			return now, before, err
		}
	}
}

// ShowDraft shows in the chat of a call what the call has of its answer. It does nothing if the
// answer was delivered, or if the chat shows the draft of another call.
func (n *Notifier) ShowDraft(ctx context.Context, to channel.DraftChannel, name string, call tools.Call, text channel.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, draftTimeout)
	defer cancel()
	mine := false
	d, _, err := n.changeDraft(ctx, name, call.ChatID, func(d *draft) bool {
		isOf := d.isOf(call.Session, call.ID)
		mine = !d.Editing && (isOf && !d.Closed || !isOf && (d.Closed || d.Message == ""))
		if !isOf || d.Message == "" {
			*d = draft{Session: call.SessionToken(), Call: call.IDToken(), Since: time.Now().UTC(), revision: d.revision}
		}
		d.Editing = true
		return mine
	})
	if err != nil || !mine {
		return err
	}
	message, err := to.ShowDraft(ctx, call.ChatID, d.Message, text)
	_, refused := consume.Rejected(err)
	_, postponed := consume.Postponed(err)
	if err != nil && !refused {
		message = d.Message // otherwise, the user has deleted it
	}
	storing, stop := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
	defer stop()
	_, _, storeErr := n.changeDraft(storing, name, call.ChatID, func(now *draft) bool {
		mine = now.revision == d.revision
		now.Message, now.Editing = message, false
		// If the response is lost, the chat may have a message that nobody can edit. Show one at most.
		now.Closed = err != nil && message == "" && !refused && !postponed
		return mine
	})
	if !mine && d.Message == "" && message != "" { // a delivery has not waited for it
		storeErr = errors.Join(storeErr, to.RemoveDraft(storing, call.ChatID, message))
	}
	return errors.Join(err, storeErr)
}

// EndDraft removes the draft of a call whose answer is not delivered to its chat.
func (n *Notifier) EndDraft(ctx context.Context, to channel.DraftChannel, name string, call tools.Call) error {
	open := false
	d, before, err := n.changeDraft(ctx, name, call.ChatID, func(d *draft) bool {
		open = d.isOf(call.Session, call.ID) && !d.Closed
		d.Message, d.Editing, d.Closed = "", false, true
		return open
	})
	if err != nil || !open || before.Message == "" {
		return err
	}
	return n.removeDraft(ctx, to, name, call.ChatID, before.Message, d.revision)
}

// removeDraft removes a message that the record of a chat, which has a revision now, no longer names. If that fails, the
// record names it again, so that whoever sends next to the chat removes it.
func (n *Notifier) removeDraft(ctx context.Context, to channel.DraftChannel, name, chat, message string, revision uint64) error {
	err := to.RemoveDraft(ctx, chat, message)
	if _, refused := consume.Rejected(err); err == nil || refused {
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
	defer stop()
	_, _, storeErr := n.changeDraft(ctx, name, chat, func(d *draft) bool {
		d.Message, d.Closed, d.Since = message, false, time.Time{} // too old to become the answer
		return d.revision == revision
	})
	return errors.Join(err, storeErr)
}

// closeDraft prepares the chat of a notification for its delivery, and sets the message that
// the notification replaces.
func (n *Notifier) closeDraft(ctx context.Context, to channel.Channel, sent *channel.Notification) error {
	drafts, ok := to.(channel.DraftChannel)
	if !ok {
		return nil
	}
	chat, began := chatOf(to, sent.ChatID), time.Now()
	isAnswer := sent.Kind == channel.KindResult && sent.Call != ""
	for {
		waits := false
		d, before, err := n.changeDraft(ctx, sent.Channel, chat, func(d *draft) bool {
			if waits = d.Editing && time.Since(began) < draftWait; waits {
				return false
			}
			isOf := d.isOf(sent.Session, sent.Call)
			switch {
			case isAnswer && !isOf && (d.Closed || d.Message == ""):
				*d = draft{Session: tools.TokenOf(sent.Session), Call: tools.TokenOf(sent.Call), revision: d.revision}
			case d.Closed: // the message is an answer
				return false
			case !isAnswer && d.Message == "" && !d.Editing:
				return false
			case !isAnswer || !isOf || time.Since(d.Since) > maxDraftAge:
				d.Message = ""
			}
			d.Editing, d.Closed = false, isAnswer && d.isOf(sent.Session, sent.Call)
			return true
		})
		switch {
		case err != nil:
			return err
		case waits:
			if err := tools.Sleep(ctx, draftPoll); err != nil {
				return err
			}
			continue
		case d.Closed && d.isOf(sent.Session, sent.Call) && isAnswer:
			sent.Replaces = d.Message
		}
		if before.Message != "" && !before.Closed && d.Message == "" {
			if err := n.removeDraft(ctx, drafts, sent.Channel, chat, before.Message, d.revision); err != nil {
				n.log.Warn().Err(err).Str("channel", sent.Channel).Msg("cannot remove the draft of an answer")
			}
		}
		return nil
	}
}
