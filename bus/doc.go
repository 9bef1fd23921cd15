// Package bus publishes messages durably to NATS JetStream, reads them, and names the subjects,
// streams and consumers. Package consume takes them with leases. Bus knows subjects and bytes;
// the packages that import it know what the bytes mean.
//
//	connect, config   Connect, Bus, Config
//	outage            ends a wait when the connection is down
//	denied            reports permission errors to the caller
//	subjects          Subjects: all names with the prefix
//	topology          the streams, buckets and consumers; package admin creates them
//	ondemand          creates the streams that few tenants use, at their first use
//	publish           Publish, the only place that repeats a message; internal/publisher sends
//	read, stored      Read and Last: stored messages, without a consumer; their headers and ids
package bus
