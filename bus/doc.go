// Package bus publishes durably and consumes with leases on NATS JetStream. It knows
// subjects and bytes; the packages that import it know what the bytes mean.
//
//	connect, config   Connect, Bus, Config; outage and denied: waiting for replies
//	subjects          Subjects: all names with the prefix
//	topology          the streams, buckets and consumers; provision creates them
//	publish           Publish, the only place that retries; publisher sends
//	consume           Consume: pull, lease, handler, verdict, requeue
//	deadletter        dead letters: store, list, retry
//	read, scan        reading a stream without a consumer
package bus
