// Package schedule stores schedules (intervals, cron expressions and single times) in
// the server, which publishes their ticks to a stream.
package schedule
