// Package simulate runs a whole installation in virtual time, with faults that follow from a seed,
// and holds what happened against the promises of docs/reliability.md. It contains tests only.
//
// One test goroutine (simulation.run) decides what happens next (load_test.go); everything else is the
// real program: an embedded server on a real directory, and processes (process_test.go) with a worker,
// its agents (agent_test.go), a notifier and a service each, which talk to it over links
// (link_test.go). An even seed has the disk store, an odd one the object store.
//
// Faults (faults_test.go): links break, processes die or stop, servers restart or are killed, streams are
// full, the store of artifacts fails or is full (store_test.go). The model fails some requests and answers
// others late or with garbage. Chats are slow, fail, and refuse some messages once. One call per hour kills
// each process that runs it. A person retries all dead letters (letters_test.go). An operator edits, pauses and deletes
// consumers, edits streams, and takes that back (operator_test.go). "make power" lets a server that is killed lose
// what it did not sync (power_test.go).
//
// Agents answer questions of clients with calls of tools, and some with a sub-agent; most of these are cancelled while
// both work (tree_test.go).
//
// Another tenant is on the same server, with the same names (neighbour_test.go).
//
// In a quarter of each hour nothing fails, and one session floods the queue: there, the judges also check
// that all happens once and in time. The ledger (ledger_test.go) notes what clients were promised and what the
// outside world saw; the judges (judge_test.go) know nothing else. The histories of facts that several
// processes write at once are checked for linearizability (register_test.go).
//
// TestLife (life_test.go) simulates one "stevedore up" with a person (person_test.go) in three chats:
// Telegram (telegram_test.go) and two bridges.
//
// The order of goroutines is not part of the seed, so a seed that fails once may pass the next time.
package simulate
