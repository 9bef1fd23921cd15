// Package cron manages jobs: calls that run on a schedule.
//
// A job is one message in the server: a schedule, enabled or disabled, with the
// call in its body. There is no second copy that could differ after a crash, and
// a job does not depend on any process of ours. The state of its last run is read
// from the results. A job belongs to a session, in which its calls run and whose
// user gets its failures; no other session can see or change it. A heartbeat is a job that a
// program keeps as HEARTBEAT.md says; it is in the same lists, and nobody else changes it.
//
// To add a field of a job, add it to Job, store it in Job.schedule and read it in decodeJob.
// Then set it from a Request (clients and "stevedore cron") and from toolArgs (the cron tool
// of agents).
//
// The API that is kept stable does not contain this package; see docs/api.md.
package cron
