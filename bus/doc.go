// Package bus carries events on NATS: it connects, embeds a server, owns the
// topology (streams, consumers, buckets), publishes durably, consumes with
// leases and verdicts, and keeps schedules in the server.
//
// It knows subjects and bytes; what the bytes mean is for the packages below it
// to know: worker, notify, rpc, heartbeat, cron and remote.
package bus
