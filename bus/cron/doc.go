// Package cron keeps jobs: calls that the server's clock makes.
//
// A job is one message in the server: its schedule, whether enabled or not, with
// the call in its body. So there is nothing that could disagree with it after a
// crash, and it survives every process of ours. How its last run ended is read
// from the results. A job belongs to a session, where its calls run and its
// failures are told; no other session sees or changes it.
package cron
