// Package bus publishes messages durably to NATS JetStream, reads them, and names the subjects,
// streams and consumers. Package consume takes messages with leases. Bus knows subjects and bytes;
// the packages that import it know what the bytes mean.
//
//	connect, config     Connect, Bus, Config
//	outage, denied      how long a caller waits for the server, and that it hears what the server denies
//	failover, leader    leaves a server that is cut off; asks the leaders of streams
//	subjects            Subjects: all names with the prefix
//	topology            the streams, buckets and consumers; package admin creates them
//	handles, consumers  look up streams and buckets; consumers, which they create
//	formats, missing    streams and buckets of another format, and those that do not exist
//	ondemand            creates the streams that few tenants use, at their first use
//	publish, republish  Publish, the only place that repeats a message; internal/publisher sends
//	altered, fill       whether a stream stores what is published: its settings, and how full it is
//	space               what this process knows of a lack of space; a publish waits for it
//	read, stored        Read and Last: stored messages, without a consumer; their headers and ids
//	jointread, watch    share requests of Last; share subscriptions
package bus
