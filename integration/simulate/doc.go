// Package simulate runs a whole installation in virtual time, with faults that follow from a seed,
// and holds what happened against the promises of docs/reliability.md. It contains tests only.
//
// One test goroutine (simulation.run) decides what happens next; everything else is the real
// program: an embedded server on a real directory, and processes (process_test.go) with a worker,
// its agents (agent_test.go), a notifier and a service each, which talk to it over links
// (link_test.go). Links are the only place of faults between the processes and the server; streams can
// be full besides. The model of the agents fails some requests, and some messages take a chat up to
// 12 s; others it refuses once, so that they are dead letters, and one call per hour kills each process that runs
// it. A person retries all dead letters (letters_test.go). Some calls have a deadline that passes while they wait or
// run, and one session floods the queue (load_test.go; the faults are in faults_test.go).
//
// In a quarter of each hour nothing fails: there, the judges also check that all happens once
// and in time. The ledger
// (ledger_test.go) notes what clients were promised and what the outside world saw; the judges
// (judge_test.go) know nothing else. The histories of facts that several processes write at once are
// checked for linearizability (register_test.go).
//
// TestLife (life_test.go) simulates one "stevedore up" with a person (person_test.go) in three chats:
// Telegram (telegram_test.go) and two bridges.
//
// The order of goroutines is not part of the seed, so a seed that fails once may pass the next time.
package simulate
