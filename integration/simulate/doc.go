// Package simulate runs a whole installation in virtual time, with faults that follow from a seed,
// and holds what happened against the promises of docs/reliability.md. It contains tests only.
//
// One test goroutine (simulation.run) decides what happens next; everything else is the real
// program: an embedded server on a real directory, and processes (process_test.go) with a worker,
// its agents (agent_test.go), a notifier and a service each, which talk to it over links
// (link_test.go). Links are the only place of faults between the processes and the server; the
// agents' model also fails by itself, and chats answer late. A quarter of each hour has no faults,
// because some promises hold only then: all happens once, and soon. The ledger (ledger_test.go)
// notes what clients were promised and what the outside world saw; the judges (judge_test.go) know
// nothing else.
//
// The order of goroutines is not part of the seed, so a seed that fails once may pass the next time.
package simulate
