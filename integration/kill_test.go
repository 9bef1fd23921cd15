package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// killCount returns how often a test kills a process; STEVEDORE_KILLS overrides it.
func killCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv("STEVEDORE_KILLS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("STEVEDORE_KILLS=%q: want a number above 0", text)
	}
	return n
}

// callsPerKill is how many calls are made for each kill. Half of them are commands in a sandbox.
const callsPerKill = 20

// load is a number of calls. Half of them are idempotent. The other half are
// once-only and append a line with their id to a file.
type load struct {
	plain
	u     up
	note  string // the content of note.txt; "A note.\n" if empty
	total int    // published so far
}

// publish publishes n more calls and repeats each publish until the server accepts it.
func (l *load) publish(n int) {
	l.Helper()
	for range n {
		id := fmt.Sprintf("k%d", l.total)
		subject, args := "stevedore.call.default.read_file.kill."+id, `{"path":"note.txt"}`
		if l.total%2 == 1 {
			subject, args = "stevedore.call.default.shell.kill."+id, `{"command":"echo `+id+` >> ran"}`
		}
		l.total++
		msg := nats.NewMsg(subject)
		msg.Header.Set("Nats-Msg-Id", id)
		msg.Data = []byte(`{"id":"` + id + `","session":"kill","args":` + args + `}`)
		l.until("accept "+id, func() bool {
			ack, err := l.nc.RequestMsg(msg, time.Second)
			return err == nil && strings.Contains(string(ack.Data), `"seq"`)
		})
	}
}

// awaitAnswers waits until n calls have a result.
func (l *load) awaitAnswers(n int) {
	l.Helper()
	var have int
	l.until(fmt.Sprintf("answer %d calls", n), func() bool {
		have = l.count("STEVEDORE_RESULTS", "stevedore.result.kill.*")
		return have >= n
	})
}

// count returns the number of messages on the subjects of a filter, or -1 if the
// server does not answer.
func (l *load) count(stream, filter string) int {
	answer, err := l.nc.Request("$JS.API.STREAM.INFO."+stream, []byte(`{"subjects_filter":"`+filter+`"}`), time.Second)
	if err != nil {
		return -1
	}
	var info struct {
		Error *struct {
			Code int `json:"err_code"`
		}
		State struct{ Subjects map[string]int }
	}
	const streamNotFound = 10059
	switch err := json.Unmarshal(answer.Data, &info); {
	case err == nil && info.Error != nil && info.Error.Code == streamNotFound && stream == "STEVEDORE_DEAD": // never used
		return 0
	case err != nil || info.Error != nil:
		return -1
	}
	n := 0
	for _, messages := range info.State.Subjects {
		n += messages
	}
	return n
}

func (l *load) until(what string, done func() bool) {
	l.Helper()
	for deadline := time.Now().Add(2 * testTimeout); !done(); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.Fatalf("waited too long to %s\ncalls: %s\nresults: %s\nconsumer: %s", what, l.info("STREAM.INFO.STEVEDORE_CALLS"),
				l.info("STREAM.INFO.STEVEDORE_RESULTS"), l.info("CONSUMER.INFO.STEVEDORE_CALLS.worker-default"))
		}
	}
}

// info returns the server's description of a stream or a consumer, for the log of a
// failed test.
func (l *load) info(of string) string {
	answer, err := l.nc.Request("$JS.API."+of, nil, 5*time.Second)
	if err != nil {
		return err.Error()
	}
	return string(answer.Data)
}

// check compares every call with its result and its executions.
func (l *load) check() {
	l.Helper()
	l.awaitAnswers(l.total)
	l.until("settle all calls", func() bool { return l.count("STEVEDORE_CALLS", ">") == 0 })
	if n := l.count("STEVEDORE_RESULTS", "stevedore.result.kill.*"); n != l.total {
		l.Errorf("%d calls have %d results", l.total, n)
	}
	if n := l.count("STEVEDORE_DEAD", ">"); n != 0 {
		l.Errorf("%d calls became dead letters", n)
	}
	ran := map[string]int{}
	text, err := os.ReadFile(filepath.Join(l.u.workspace, "ran"))
	if err != nil {
		l.Error(err)
	}
	for id := range strings.FieldsSeq(string(text)) {
		ran[id]++
	}
	unknown, again := 0, 0
	for i := range l.total {
		id := fmt.Sprintf("k%d", i)
		result := l.stored("STEVEDORE_RESULTS", "stevedore.result.kill."+id)
		outcome := result.text("outcome")
		if result["attempt"] != 1.0 {
			again++
		}
		switch {
		case i%2 == 0 && (outcome != "completed" || result.text("for_llm") != cmp.Or(l.note, "A note.\n")):
			l.Errorf("%s, which may be repeated, ended as %.300v", id, result)
		case i%2 == 1 && ran[id] > 1:
			l.Errorf("%s ran %d times", id, ran[id])
		case i%2 == 1 && outcome == "unknown":
			unknown++
		case i%2 == 1 && (outcome != "completed" || ran[id] != 1):
			l.Errorf("%s ran %d times and ended as %.300v", id, ran[id], result)
		}
	}
	l.Logf("%d calls, %d were delivered again, %d have an unknown outcome", l.total, again, unknown)
}

// reconnecting returns options with which a client survives a server restart.
func reconnecting(t *testing.T, url string) plain {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return plain{t, nc}
}

// many is more deliveries than any call needs here. With the default, a call whose
// worker is killed five times correctly becomes a dead letter.
const many = "--max-attempts=100000"

// inMakeKill skips a test of kills in a run of all tests, which kills a process of each kind once:
// TestKillUp, TestKillAsyncWorkersAndNotifiers, TestKillFleet, TestMCPTakeover.
func inMakeKill(t *testing.T) {
	t.Helper()
	if os.Getenv("STEVEDORE_KILLS") == "" {
		t.Skip("make kill runs this test")
	}
	t.Parallel()
}

// The test kills one of two workers repeatedly and starts it again.
func TestKillOneOfTwoWorkers(t *testing.T) {
	inMakeKill(t)
	kills := killCount(t)
	u := startUp(t, "--lease", "2s", "--queue", "home")
	serve := []string{"serve", "--server", u.url, "--workspace", u.workspace, "--slots", "4", "--lease", "2s", many}
	start(t, append(serve, "--name", "survivor")...)
	victim := func() *process {
		p, err := launch(append(serve, "--name", "victim")...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}

	l := &load{plain: reconnecting(t, u.url), u: u}
	for i := range kills {
		p := victim()
		l.publish(callsPerKill)
		// Any moment from the first call of the round to the last.
		l.awaitAnswers(i*callsPerKill - 10 + rand.IntN(callsPerKill))
		p.kill()
	}
	l.check()
}

// The test kills "stevedore up", which contains the server, and starts it again on the
// same data directory. Every accepted call gets its result.
func TestKillUp(t *testing.T) {
	t.Parallel()
	kills := killCount(t)
	u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	if err := os.WriteFile(filepath.Join(u.workspace, "note.txt"), []byte("A note.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := bustest.FreeAddress(t) // the clients reconnect to it
	run := func() *process {
		p, err := launch("up", "--json", "--listen", listen, "--data", u.data, "--workspace", u.workspace, "--slots", "4", "--lease", "2s", many)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := run()
	u.url = urlOf(t, p)

	l := &load{plain: reconnecting(t, u.url), u: u}
	for range kills {
		l.publish(callsPerKill)
		l.awaitAnswers(l.total - 1 - rand.IntN(callsPerKill))
		p.kill()
		p = run()
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("up: %v\n%s", err, p.stderr)
		}
	})
	l.check()
	if o := worker(t, "status", "--server", u.url); o.code != 0 {
		t.Errorf("stevedore status exits with %d: %s%s", o.code, o.stdout, o.stderr)
	}
}
