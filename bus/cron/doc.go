// Package cron keeps jobs: calls that run on a schedule (an interval, a cron expression or a
// single time), which the server fires.
//
// A job is the last message on schedule.<kind>.<name> of the stream TICKS. Its body is the call,
// and its headers tell the server when to publish a tick with that body to tick.<kind>.<name>. So
// ticks come without any process of ours, a missed one is made up once, and there is no second copy
// that could differ after a crash. The state of a job's last run is read from the results. The id
// of a tick's call (CallID) follows from the schedule and the due time, so a tick that is delivered
// twice is one call.
//
// A job belongs to a session, in which its calls run and whose user gets its failures; no other
// session can see or change it. A heartbeat is a job that a program keeps as HEARTBEAT.md says; it
// is in the same lists, and nobody else changes it. Writers name the revision that they replace,
// and write no unchanged job, because a write restarts its interval.
//
// The server waits with timers, which jumps of the clock and hours that the clocks skip disturb,
// and an unclean stop makes it count intervals anew. Jobs.KeepTime corrects these.
//
// To add a field of a job, add it to Job, store it in Job.encode and read it in Job.decode. Then
// set it from a Request (clients and "stevedore cron") and from toolArgs (the cron tool of agents).
//
// The API that is kept stable does not contain this package; see docs/api.md.
package cron
