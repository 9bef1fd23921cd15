package channel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
)

// chats are those that a channel sends to and receives from.
type chats struct {
	kind  string // of the channel, for errors
	chat  string // the default; it may be empty
	allow chatList
	// threads says that CHAT/THREAD is a chat of its own, which is allowed if CHAT is.
	threads bool
	// toAll says that what names no chat goes to all of them.
	toAll bool
}

// Room implements Receiving.
func (c chats) Room(chat string) string {
	if c.threads {
		chat, _, _ = strings.Cut(chat, "/")
	}
	return chat
}

// MayReceive implements Receiving.
func (c chats) MayReceive(chat string) (string, bool) { return chat, c.allow.mayReceive(c.Room(chat)) }

// Chats implements Receiving.
func (c chats) Chats() []string { return c.allow.named() }

// DefaultChat implements Receiving.
func (c chats) DefaultChat() string { return c.chat }

// SendsToAll implements Receiving.
func (c chats) SendsToAll() bool { return c.toAll }

// ListsChats implements Receiving.
func (c chats) ListsChats() bool { return true }

// CheckChat implements Receiving.
func (c chats) CheckChat(chat string) error {
	if chat == "" || c.allow.maySend(c.Room(chat)) {
		return nil
	}
	return fmt.Errorf("send to %s: the channel does not send to the chat %q; to allow it, add it to the settings of the channel",
		c.kind, tools.Excerpt(tools.EscapeLine(chat), 80))
}

// destination returns the chat of a notification; it is empty for all chats. Its error is a rejection.
func (c chats) destination(n Notification) (string, error) {
	chat := cmp.Or(n.ChatID, c.chat)
	if chat == "" && !c.toAll {
		return "", consume.Reject("no_chat", errors.New("send to "+c.kind+": neither the notification nor the channel names a chat"))
	}
	if err := c.CheckChat(chat); err != nil {
		return "", consume.Reject("refused_chat", err)
	}
	return chat, nil
}

// chatList lists the chats that a channel sends to and receives from.
type chatList []string

// anyChat in a chatList allows all chats, to send only.
const anyChat = "*"

// parseChats reads the setting allow, and adds the default chat.
func parseChats(allow, chat string) chatList {
	var list chatList
	for name := range strings.SplitSeq(allow, ";") { // a name may have spaces
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	if chat != "" && !slices.Contains(list, chat) {
		list = append(list, chat)
	}
	return list
}

// mayReceive reports whether messages of a chat are accepted.
func (l chatList) mayReceive(chat string) bool {
	return chat != "" && chat != anyChat && slices.Contains(l, chat)
}

// maySend reports whether messages may be sent to a chat.
func (l chatList) maySend(chat string) bool {
	return slices.Contains(l, chat) || slices.Contains(l, anyChat)
}

// named returns the list without anyChat.
func (l chatList) named() chatList {
	return slices.DeleteFunc(slices.Clone(l), func(chat string) bool { return chat == anyChat })
}
