// Package notify delivers results and completions to channels.
//
// The notifier stores each notification in the outbox and delivers it from
// there. Each channel has its own durable consumer, so a channel that is down
// delays no other channel, keeps its order and loses nothing. Delivery is
// at-least-once; a channel that passes on the notification's ID makes it
// effectively-once.
//
// To add a channel, write a type with the method Send in its own file (Channel
// says what the error means; webhook.go is a short example), add a row to kinds
// in spec.go, and add a spec to TestNoErrorNamesASecret. A service with an
// incoming webhook needs no type: add a row to shapes in http.go and one to
// kinds, and a case to TestPresets.
package notify
