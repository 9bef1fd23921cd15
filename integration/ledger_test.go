package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// ledger records what a client was promised: the calls that the bus accepted. After
// the disturbances it compares them with what the streams, the workspace and the
// channel contain.
type ledger struct {
	*testing.T
	began time.Time
	nc    *nats.Conn                 // for the check
	logs  func(text string) []string // lines of the workers that contain a text; may be nil

	mu       sync.Mutex
	accepted map[string]ledgerCall // by call id
	events   []ledgerEvent
}

type ledgerCall struct {
	id, session, kind string
}

// ledgerEvent is a disturbance, or something that happened to one call.
type ledgerEvent struct {
	at   time.Duration
	call string // "" for a disturbance
	text string
}

func newLedger(t *testing.T) *ledger {
	return &ledger{T: t, began: time.Now(), accepted: map[string]ledgerCall{}}
}

func (l *ledger) note(call, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, ledgerEvent{time.Since(l.began), call, fmt.Sprintf(format, args...)})
}

func (l *ledger) accept(c ledgerCall) {
	l.note(c.id, "accepted (%s)", c.kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted[c.id] = c
}

// violated reports a broken promise with the shortest history that explains it: what
// happened to the call, and the disturbances between its submission and its end.
func (l *ledger) violated(call, format string, args ...any) {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var from, to time.Duration
	for _, e := range l.events {
		if e.call == call {
			if from == 0 {
				from = e.at
			}
			to = e.at
		}
	}
	var history strings.Builder
	for _, e := range l.events {
		if e.call == call || e.call == "" && e.at >= from-5*time.Second && e.at <= to+10*time.Second {
			fmt.Fprintf(&history, "\n  %8.3fs %s", e.at.Seconds(), e.text)
		}
	}
	if l.logs != nil && call != "" {
		for _, line := range l.logs(call) {
			fmt.Fprintf(&history, "\n  %.600s", line)
		}
	}
	l.Errorf("%s: %s; history:%s", call, fmt.Sprintf(format, args...), &history)
}

// results reads all results of a stream below a subject, by call id. Messages that no
// worker published do not count; a worker replaces them.
func (l *ledger) results(js nats.JetStreamContext, subject string) (map[string][]event, error) {
	sub, err := js.SubscribeSync(subject, nats.OrderedConsumer())
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	all := map[string][]event{}
	info, err := sub.ConsumerInfo()
	if err != nil {
		return nil, err
	}
	for n := info.NumPending + info.Delivered.Consumer; n > 0; n-- {
		msg, err := sub.NextMsg(10 * time.Second)
		if err != nil { // a worker removed some in the meantime
			l.Logf("%d messages of %s are missing: %v", n, subject, err)
			break
		}
		var e event
		if json.Unmarshal(msg.Data, &e) != nil || e.text("outcome") == "" {
			continue
		}
		id := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]
		all[id] = append(all[id], e)
	}
	return all, nil
}

// lines counts the lines of a file.
func (l *ledger) lines(path string) map[string]int {
	l.Helper()
	counts := map[string]int{}
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return counts
	}
	if err != nil {
		l.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		counts[s.Text()]++
	}
	if s.Err() != nil {
		l.Fatal(s.Err())
	}
	return counts
}

// lostRace reports whether a worker ran a call whose result another one published first.
func (l *ledger) lostRace(id string) bool {
	return l.logs != nil && slices.ContainsFunc(l.logs(id), func(line string) bool { return strings.Contains(line, "another worker published the result first") })
}

// check compares the accepted calls with everything that they left behind.
func (l *ledger) check(nc *nats.Conn, workspace string) {
	l.Helper()
	l.nc = nc
	js, err := nc.JetStream(nats.MaxWait(testTimeout))
	if err != nil {
		l.Fatal(err)
	}
	results, err := l.results(js, "stevedore.result.>")
	if err != nil {
		l.Fatal(err)
	}
	completions, err := l.results(js, "stevedore.completion.>")
	if err != nil {
		l.Fatal(err)
	}
	ran := l.lines(filepath.Join(workspace, "ran"))
	notified := map[string]int{} // by chat and text
	for line, n := range l.lines(filepath.Join(workspace, "notes.jsonl")) {
		var note struct {
			Text   string
			ChatID string `json:"chat_id"`
		}
		if err := json.Unmarshal([]byte(line), &note); err != nil {
			l.Errorf("the channel got the line %q", line)
		}
		notified[note.ChatID+" "+strings.TrimSpace(note.Text)] += n
	}
	ends := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(l.accepted)) {
		c := l.accepted[id]
		if len(results[id]) != 1 {
			l.violated(id, "it has %d results", len(results[id]))
			continue
		}
		result := results[id][0]
		if c.kind == "async" && result.text("outcome") == "async" {
			if len(completions[id]) != 1 {
				l.violated(id, "it has %d completions", len(completions[id]))
				continue
			}
			result = completions[id][0]
		}
		outcome := result.text("outcome")
		ends[c.kind+" "+outcome]++
		l.note(id, "ended: %.700s", fmt.Sprint(result))
		once := c.kind == "once"
		switch {
		case once && ran[id] > 1:
			l.violated(id, "the once-only tool ran %d times", ran[id])
		case once && result.text("error", "code") == "given_up" && ran[id] > 0:
			l.violated(id, "a call with the code given_up ran")
		case outcome == "completed":
			l.checkCompleted(c, result, ran[id], notified)
		case outcome == "unknown" && once:
		case c.kind == "message" && strings.Contains(result.text("error", "message"), "the stream is full"):
			// The tool said that the user gets nothing. If two workers ran it, one of them may have
			// sent the message although the result of the other one came first.
			if notified[c.session+" hello "+id] > 0 && !l.lostRace(id) {
				l.violated(id, "the user got a message that failed")
			}
		default:
			l.violated(id, "a call of kind %s ended as %q", c.kind, outcome)
		}
		delete(results, id)
		delete(completions, id)
	}
	for id := range results {
		if soakID.MatchString(id) && !l.tried(id) {
			l.violated(id, "there is a result of a call that nobody submitted")
		}
	}
	l.Logf("%d accepted calls ended as %v", len(l.accepted), ends)
}

// soakID matches the ids of the client's calls; agents make calls with other ids.
var soakID = regexp.MustCompile(`^soak-\d+$`)

// tried reports whether the client submitted a call at all.
func (l *ledger) tried(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.events, func(e ledgerEvent) bool { return e.call == id })
}

// checkArtifact reads the middle and the end of an artifact, in its session and in
// another one.
func (l *ledger) checkArtifact(c ledgerCall, result event) error {
	id := result.text("artifact", "artifact_id")
	if id == "" {
		return errors.New("there is none")
	}
	read := func(session string) (text string, err error) {
		var msg *nats.Msg
		for range 10 { // a request is lost if the server has not noticed yet that a worker's connection is gone
			msg, err = l.nc.Request("stevedore.rpc.artifact."+session+".lines",
				fmt.Appendf(nil, `{"artifact_id":%q,"start_line":%d,"end_line":%d}`, id, bigLines/2, bigLines/2), testTimeout/10)
			if err == nil {
				break
			}
		}
		if err != nil {
			return "", err
		}
		var e event
		return string(msg.Data), json.Unmarshal(msg.Data, &e)
	}
	switch text, err := read(c.session); {
	case err != nil:
		return err
	case !strings.Contains(text, bigLine(bigLines/2)):
		return fmt.Errorf("line %d is %.200s", bigLines/2, text)
	}
	if text, err := read("other"); err != nil || !strings.Contains(text, "not_found") {
		return fmt.Errorf("another session reads %.200s: %v", text, err)
	}
	return nil
}

func (l *ledger) checkCompleted(c ledgerCall, result event, ran int, notified map[string]int) {
	l.Helper()
	text := result.text("for_llm")
	switch c.kind {
	case "read":
		if text != "A note.\n" {
			l.violated(c.id, "its result is %.200q", text)
		}
	case "once":
		if ran != 1 {
			l.violated(c.id, "it completed and ran %d times", ran)
		}
		if notified[c.session+" done "+c.id] == 0 {
			l.violated(c.id, "the user did not get its output")
		}
	case "message":
		if notified[c.session+" hello "+c.id] == 0 {
			l.violated(c.id, "the user did not get the message")
		}
	case "raw":
		if text != "raw "+c.id {
			l.violated(c.id, "its result is %.200q", text)
		}
	case "big":
		if err := l.checkArtifact(c, result); err != nil {
			l.violated(c.id, "its artifact: %v; the result is %.200q", err, text)
		}
	case "async":
		if text != "report of "+c.id {
			l.violated(c.id, "its completion is %.200q", text)
		}
	case "agent":
		if text != agentReply {
			l.violated(c.id, "the agent's reply is %.200q", text)
		}
		if notified[c.session+" "+agentReply] == 0 {
			l.violated(c.id, "the user did not get the agent's reply")
		}
	}
}
