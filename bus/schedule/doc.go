// Package schedule stores schedules (intervals, cron expressions and single times) in
// the server, which publishes their ticks to a stream. Heartbeats and jobs use it.
//
// A schedule is the last message on schedule.<kind>.<name> of the stream TICKS. Its body is
// the body of each tick, and its headers tell the server when to publish a tick to
// tick.<kind>.<name>. So ticks come without any process of ours, and a missed one is made
// up once.
//
// Writers name the revision that they replace. Put does not write an unchanged schedule,
// because a write restarts its interval, so any number of processes may put the same one.
// The id of a tick's call (CallID) follows from the schedule and the due time, so a
// tick that is delivered twice is one call.
//
// The server waits with timers, which jumps of the clock and hours that the clocks skip
// disturb, and an unclean stop makes it count intervals anew. Store.KeepTime corrects these.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package schedule
