// Package notify delivers results and completions to channels.
//
// The notifier stores each notification in the outbox and delivers it from
// there. Each channel has its own durable consumer, so a channel that is down
// delays no other channel and loses nothing. Delivery is at-least-once; a channel
// that passes on the notification's ID makes it effectively-once.
//
// Each chat of a channel gets its notifications in the order in which the outbox
// stored them, over all notifiers and after crashes: the first attempt to send one
// begins when each earlier one was accepted or became a dead letter. An empty
// ChatID is a chat too. Three things are not guaranteed. A repeated notification
// may follow a later one, if its acknowledgement was lost or if its notifier was
// paused for longer than its lease. A retried dead letter is a new notification.
// The routing of two results that end at the same time may swap them before the
// outbox stores them.
//
// A chat that is retried delays no other chat. A notifier that dies delays the
// chats that it was delivering to, for 5 seconds at most. One chat delays the
// others of its channel if more than 10,000 of its notifications wait.
//
// Package channel has the channels. One of your own is a type with the method Send; any program
// may publish to it:
//
//	n, err := notify.New(b, notify.Config{Channels: map[string]channel.Channel{"pager": pager}, Default: "pager"})
//	err = n.Run(ctx) // until ctx ends
//	_, err = b.Publish(ctx, bus.Message{Subject: b.Notify("pager", ""), Body: []byte(`{"text":"Hello."}`)})
package notify
