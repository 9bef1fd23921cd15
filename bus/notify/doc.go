// Package notify takes results and completions to channels.
//
// A notification is put into the outbox first and delivered from there: each
// channel has a durable consumer of its own, so that one that is down delays
// no other, keeps its order and loses nothing. Delivery is at-least-once; a
// channel that passes the notification's key on makes it effectively-once.
package notify
