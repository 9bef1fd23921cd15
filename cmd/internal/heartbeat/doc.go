// Package heartbeat writes the schedule of HEARTBEAT.md to the server, and logs what
// the heartbeats returned.
//
// The server creates the ticks and workers run them, so ticks continue while no
// process of this package runs. Any number of them may run at once.
//
// To add a setting, add it to Config, use it in Config.schedule, and set it from a
// flag in cli.Heartbeat (cmd/internal/cli), which both commands use.
package heartbeat
