// Package jsapi speaks the parts of the JetStream wire protocol that nats.go hides
// or does not have. These are publish acknowledgements (ack.go), single messages from
// any replica or from the leader (get.go), batches of messages (batch.go), the deletion of
// a message that may be gone (delete.go), and copies of streams (snapshot.go).
package jsapi
