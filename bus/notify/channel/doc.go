// Package channel has the places where users read messages: consoles, files, chats, e-mail
// and push services. Some of them also receive messages, which go to an Inbox.
//
// To add a channel, write a type with the method Send in its own file (Channel
// says what the error means; webhook.go is a short example), add a row to kinds
// in spec.go, and add its name to docs/agents.md. If it has a secret, add a spec to
// TestNoErrorNamesASecret. A service with an incoming webhook needs no type: add a
// row to shapes in http.go, and a case to TestPresets.
package channel
