// Package heartbeat keeps the schedule of the heartbeat in the server as
// HEARTBEAT.md wants it, and writes what came of its ticks to a log.
//
// The server does the firing and the workers do the work: any number of these
// processes may run, and ticks go on without them.
package heartbeat
