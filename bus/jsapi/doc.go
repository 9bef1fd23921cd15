// Package jsapi speaks the parts of the JetStream wire protocol that nats.go hides
// or does not have. These are publish acknowledgements (ack.go), single messages from
// any replica or from the leader, and the deletion of one that may be gone (get.go), batches
// of messages (batch.go), and copies of streams (snapshot.go).
//
// The API that is kept stable does not contain this package; see docs/api.md.
package jsapi
