// Package heartbeat keeps a job (bus/cron) as HEARTBEAT.md says, and logs what its runs
// returned.
//
// The server creates the ticks and workers run them, so ticks continue while no
// process of this package runs. Any number of them may run at once.
//
// To add a setting, add it to Config, use it in Config.job, and set it from a
// flag in cli.Heartbeat (cmd/internal/cli), which both commands use.
package heartbeat
