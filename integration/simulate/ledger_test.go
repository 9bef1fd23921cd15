package simulate

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// ledger notes what clients were promised and what the outside world saw.
type ledger struct {
	tenant   string // of a neighbour: the prefix of its subjects and of its texts
	mu       sync.Mutex
	accepted map[string]*promise     // by call
	runs     map[string][]time.Time  // of tools, by call
	informed map[string]time.Time    // the last run in a process whose link was whole, by call
	jobs     map[string][]jobRun     // runs of scheduled jobs, by job
	trees    map[string][]jobRun     // runs of tools for an agent with a sub-agent, by its call
	cuts     map[string]span         // in which such an agent was cancelled
	calms    []span                  // in which nothing failed, nor shortly before
	due      map[string]time.Time    // when a job that runs once is due, or zero if it was removed, by job
	stopped  map[string][]span       // times in which a job is disabled or removed, by job
	sent     map[string][]string     // texts that a chat got, by chat, without those it dropped as duplicates
	seen     map[string][]time.Time  // deliveries by the id of the notification
	settled  map[string]bool         // notifications that were sent and acknowledged, by id
	refusing []span                  // in which the bucket that has the records of deliveries refuses them
	failed   map[string]bool         // notifications that the chat answered with an error once, by id
	told     map[string]map[int]bool // messages with a number that a chat was promised, by chat
	approved map[string]bool         // calls that a person approved
	unstored map[string]refusal      // calls whose artifact a store refused
	retried  map[string]bool         // calls whose dead letter somebody tried to retry
	heard    []heard                 // requests to the model
	lacking  map[string]bool         // questions whose answers a conversation lacked when it had gone on
	wrongs   []string                // what came to a model, a chat or a tool and should not have
}

// promise is what a client knows of a call that was accepted.
type promise struct {
	at          time.Time // when it was accepted
	session, id string
	tool        string
	priority    string
	deadline    time.Time
	ms          int    // how long it runs
	size        int    // of the result
	user        string // the text for the user
	chat        string
	cancelled   bool   // the client asked for it
	raw         bool   // another program ran the tool
	reply       string // the text of the result, if it is an answer of an agent
	tree        string // the kind of a run with a sub-agent
	pruned      bool   // the client cancels the sub-agent
	flood       bool   // it waits behind many calls of its own session
	sequence    uint64 // of the call in its stream
}

// call is what the client submits.
func (p *promise) call(t *testing.T) tools.Call {
	in, err := json.Marshal(args{MS: p.ms, Size: p.size, User: p.user})
	if err != nil {
		t.Fatal(err)
	}
	return tools.Call{ID: p.id, Session: p.session, Tool: p.tool, Args: in, Channel: "chat", ChatID: p.chat, Priority: p.priority, Deadline: p.deadline}
}

// isIgnored reports whether nobody answers the question about the call before its deadline.
func (p *promise) isIgnored() bool {
	return p.tool == "asked" && !p.deadline.IsZero() && crc32.ChecksumIEEE([]byte(p.id))%2 == 0
}

// isDenied reports whether a person says no to the call.
func (p *promise) isDenied() bool {
	return p.tool == "asked" && !p.isIgnored() && crc32.ChecksumIEEE([]byte(p.id))%6 == 1
}

// jobRun is a run of a scheduled job.
type jobRun struct {
	call string
	at   time.Time
}

// refusal is the first failure of a store to write the artifact of a call.
type refusal struct {
	at   time.Time
	full bool // the store said so once
}

// span is a time from one moment to another one.
type span struct{ from, to time.Time }

func newLedger() *ledger {
	return &ledger{accepted: map[string]*promise{}, runs: map[string][]time.Time{}, informed: map[string]time.Time{}, jobs: map[string][]jobRun{}, due: map[string]time.Time{}, stopped: map[string][]span{}, trees: map[string][]jobRun{}, cuts: map[string]span{}, sent: map[string][]string{}, seen: map[string][]time.Time{}, settled: map[string]bool{}, failed: map[string]bool{}, approved: map[string]bool{}, unstored: map[string]refusal{}, retried: map[string]bool{}, lacking: map[string]bool{}, told: map[string]map[int]bool{}}
}

func (l *ledger) accept(p *promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.at = time.Now()
	l.accepted[p.id] = p
}

// has says whether a call was accepted, or always yes.
func (l *ledger) has(always bool, call string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return always || l.accepted[call] != nil
}

func (l *ledger) wrong(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrongs = append(l.wrongs, what)
}

// ran notes a run of a tool, in a process that can have read what is stored of the call, or cannot.
func (l *ledger) ran(call string, informed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if informed {
		l.informed[call] = time.Now()
	}
	l.runs[call] = append(l.runs[call], time.Now())
}

func (l *ledger) timesRan(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs[call])
}

func (l *ledger) jobRan(job, call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[job] = append(l.jobs[job], jobRun{call, time.Now()})
}

func (l *ledger) remind(job string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due[job] = at
}

func (l *ledger) stopJob(job string, during span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped[job] = append(l.stopped[job], during)
}

// deliver notes a notification at a chat that drops duplicates by their id.
func (l *ledger) deliver(chat, id, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenant == "" && strings.Contains(text, neighbour) {
		l.wrongs = append(l.wrongs, fmt.Sprintf("%s is of another tenant and came to %s: %q", id, chat, text))
	}
	if l.settled[id] && !slices.ContainsFunc(l.refusing, func(s span) bool { // without a record, a copy may be sent, such as that of its dead letter
		return l.seen[id][0].After(s.from) && l.seen[id][0].Before(s.to)
	}) {
		l.wrongs = append(l.wrongs, fmt.Sprintf("%s was sent again at %s, after its acknowledgement: %v", id, clock(), l.seen[id]))
	}
	if l.seen[id] = append(l.seen[id], time.Now()); len(l.seen[id]) == 1 {
		l.sent[chat] = append(l.sent[chat], text)
	}
}

// failOnce reports whether the chat fails for a notification for the first time.
func (l *ledger) failOnce(id string) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = !l.failed[id]
	l.failed[id] = true
	return first
}

func (l *ledger) isIgnored(call string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.accepted[call]
	return p != nil && p.isIgnored()
}

func (l *ledger) isDenied(call string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.accepted[call]
	return p != nil && p.isDenied()
}

func (l *ledger) approve(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.approved[call] = true
}

func (l *ledger) refuse(call string, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.unstored[call]
	if !ok {
		r.at = time.Now()
	}
	r.full = r.full || full
	l.unstored[call] = r
}

// mayLackText reports whether a result may have less than the text of its tool: its store was full, or failed for as
// long as a worker waits for it: 5 minutes, less the pause of at most 15 s before a try that would be later.
func (l *ledger) mayLackText(call string, end event) bool {
	r, ok := l.unstored[call]
	return ok && end.Artifact == nil && (r.full || end.at.Sub(r.at) >= 5*time.Minute-15*time.Second)
}

func (l *ledger) retry(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retried[call] = true
}

func (l *ledger) hear(h heard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, h)
}

// isAbandoned reports whether an agent was given up, and its conversation went on before somebody retried it.
func (l *ledger) isAbandoned(call string, end event) bool {
	return l.retried[call] && end.Outcome == "failed" && end.Error.Code == "abandoned"
}

func (l *ledger) isApproved(call string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.approved[call]
}

// refuseRecords notes when no record of a delivery is stored.
func (l *ledger) refuseRecords(during span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing = append(l.refusing, during)
}

func (l *ledger) settle(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled[id] = true
}

func (l *ledger) tell(chat string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[chat] == nil {
		l.told[chat] = map[int]bool{}
	}
	l.told[chat][n] = true
}
