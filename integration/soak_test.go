package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// The soak tests run clients, workers and servers as processes, and kill, suspend,
// restart and isolate them in an order that a seed determines. The ledger then checks
// every promise. STEVEDORE_SOAK sets the duration of the disturbances and
// STEVEDORE_SOAK_SEED repeats the order of a failed run.

func TestSoakOneServer(t *testing.T)    { soak(t, 1, 5*time.Second) }
func TestSoakThreeServers(t *testing.T) { soak(t, 3, 8*time.Second) }

const (
	agentReply = "The note is read."
	bigLines   = 6000
)

// bigLine is a line of the file whose content workers offload.
func bigLine(n int) string { return fmt.Sprintf("line %d of a file that is too large for a prompt", n) }

// soakRun is one run of a soak test.
type soakRun struct {
	*ledger
	cluster   *natsCluster
	rng       *rand.Rand // for the disturbances
	workspace string
	workers   []*soakWorker
	async     *child
	next      atomic.Int64 // number of the next call
}

func soak(t *testing.T, servers int, duration time.Duration) {
	if testing.Short() {
		t.Skip("it takes long under the race detector, which does not see the processes")
	}
	if text := os.Getenv("STEVEDORE_SOAK"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("STEVEDORE_SOAK: %v", err)
		}
	}
	seed := rand.Uint64()
	if text := os.Getenv("STEVEDORE_SOAK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("STEVEDORE_SOAK_SEED: %v", err)
		}
	}
	t.Logf("STEVEDORE_SOAK_SEED=%d repeats the disturbances of this run", seed)
	r := &soakRun{ledger: newLedger(t), rng: rand.New(rand.NewPCG(seed, 0)), workspace: t.TempDir()}
	r.cluster = startCluster(t, servers)
	r.prepare(servers)
	before := r.workers[0].usage(t)

	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() { r.submit(ctx, i) })
	}
	for ctx.Err() == nil {
		r.disturb(ctx)
	}
	clients.Wait()
	r.heal()
	nc := reconnecting(t, r.cluster.url()).nc
	r.awaitEnds(nc)
	r.check(nc, r.workspace)
	r.checkUsage(before)
}

// prepare provisions the bus and starts the workers. The first worker is never
// disturbed, so that its memory can be compared.
func (r *soakRun) prepare(replicas int) {
	r.Helper()
	var big strings.Builder
	for n := range bigLines {
		fmt.Fprintln(&big, bigLine(n+1))
	}
	script := `{"tools":[{"name":"read_file","input":{"path":"note.txt"}}]}` + "\n" + `{"text":"` + agentReply + `"}` + "\n"
	for name, text := range map[string]string{"note.txt": "A note.\n", "big.txt": big.String(), "script.jsonl": script} {
		if err := os.WriteFile(filepath.Join(r.workspace, name), []byte(text), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	o := worker(r.T, "provision", "--server", r.cluster.url(), "--replicas", strconv.Itoa(replicas), "--queue", "unused") // the workers create their consumers, with a short lease
	if o.code != 0 {
		r.Fatalf("provision: %s%s", o.stdout, o.stderr)
	}
	for i := range 3 {
		w := &soakWorker{run: r, name: fmt.Sprint("w", i), health: freePort(r.T)}
		w.start()
		r.workers = append(r.workers, w)
	}
	r.T.Cleanup(func() {
		for _, w := range r.workers {
			w.resume()
			if err := w.stop(); err != nil && !r.Failed() {
				r.Errorf("worker %s: %v\n%s", w.name, err, w.stderr)
			}
		}
	})
	r.startAsync()
}

func (r *soakRun) startAsync() {
	r.async = startChild(r.T, "worker", serverEnv+"="+r.cluster.url(), runsEnv+"="+filepath.Join(r.workspace, "ran"), queueEnv+"=async")
}

// soakWorker is a process of the real program.
type soakWorker struct {
	*process
	run    *soakRun
	name   string
	health int
}

func (w *soakWorker) start() {
	w.run.Helper()
	dir := w.run.workspace
	p, err := launch("serve", "--server", w.run.cluster.url(), "--workspace", dir, "--name", w.name, "--lease", "2s",
		"--queue", "default", "--queue", "agent", "--model", "script:"+filepath.Join(dir, "script.jsonl"), "--slots", "16", many,
		"--channel", "notes=file:"+filepath.Join(dir, "notes.jsonl"), "--default-channel", "notes",
		"--health", fmt.Sprint("127.0.0.1:", w.health), "--data", filepath.Join(dir, ".data-"+w.name))
	if err != nil {
		w.run.Fatal(err)
	}
	w.process = p
}

func (w *soakWorker) suspend() { suspend(w.cmd.Process) }
func (w *soakWorker) resume()  { resume(w.cmd.Process) }

// usage is what a process holds.
type usage struct{ rssMiB, files, threads int }

func (w *soakWorker) usage(t *testing.T) (u usage) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(w.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Logf("the usage of the process is not known here: %v", err)
		return u
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "VmRSS:":
			kib, _ := strconv.Atoi(fields[1])
			u.rssMiB = kib >> 10
		case fields[0] == "Threads:":
			u.threads, _ = strconv.Atoi(fields[1])
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	u.files = len(files)
	return u
}

// checkUsage compares the undisturbed worker with its start. A worker under load holds
// some buffers and idle connections; what grows with the number of calls is a leak.
func (r *soakRun) checkUsage(before usage) {
	r.Helper()
	after := r.workers[0].usage(r.T)
	r.Logf("an undisturbed worker held %+v at the start and %+v at the end", before, after)
	if after.files > before.files+20 {
		r.Errorf("the worker has %d open files, and %d at its start", after.files, before.files)
	}
	if after.rssMiB > before.rssMiB+150 {
		r.Errorf("the worker has %d MiB of memory, and %d at its start", after.rssMiB, before.rssMiB)
	}
}

// soakCall is a call as a client in any language sends it.
type soakCall struct {
	ledgerCall
	queue, tool string
	raw         bool
	args        string
}

var soakKinds = []string{"read", "once", "once", "message", "raw", "async", "agent"}

func (r *soakRun) newCall() soakCall {
	n := r.next.Add(1)
	id := fmt.Sprintf("soak-%d", n)
	kind := soakKinds[n%int64(len(soakKinds))]
	if n%50 == 0 {
		kind = "big"
	}
	c := soakCall{ledgerCall: ledgerCall{id, fmt.Sprint("s", n%10), kind}, queue: "default"}
	switch kind {
	case "read":
		c.tool, c.args = "read_file", `{"path":"note.txt"}`
	case "big":
		c.tool, c.args = "read_file", `{"path":"big.txt"}`
	case "once":
		c.tool, c.args = "shell", `{"command":"echo `+id+` >> ran && echo done `+id+`"}`
	case "message":
		c.tool, c.args = "message", `{"content":"hello `+id+`"}`
	case "raw":
		c.tool, c.raw = "outside", true
	case "async":
		c.queue, c.tool, c.args = "async", "background_"+string(asyncEffects[n/int64(len(soakKinds))%2+1]), `{"ms":30,"size":0}`
	case "agent":
		c.queue, c.tool, c.args = "agent", "agent", `{"prompt":"Read the note."}`
		c.session = id
	}
	return c
}

func (c soakCall) body() string {
	if c.raw {
		return fmt.Sprintf(`{"id":%q,"session":%q,"for_llm":"raw %s"}`, c.id, c.session, c.id)
	}
	return fmt.Sprintf(`{"id":%q,"session":%q,"args":%s}`, c.id, c.session, c.args)
}

// submit submits calls until ctx ends, at about ten in a second. It repeats each until the
// bus accepts it.
func (r *soakRun) submit(ctx context.Context, client int) {
	nc, err := nats.Connect(r.cluster.url(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(time.Second), nats.RetryOnFailedConnect(true))
	if err != nil {
		r.Errorf("client %d: %v", client, err)
		return
	}
	defer nc.Close()
	for ctx.Err() == nil {
		c := r.newCall()
		for try := 0; ctx.Err() == nil; try++ {
			way := (len(c.id) + int(r.next.Load()) + try) % 3
			if c.raw {
				way %= 2
			}
			r.note(c.id, "client %d submits it through %s in way %d", client, nc.ConnectedAddr(), way)
			accepted, err := c.send(nc, way)
			if accepted {
				r.accept(c.ledgerCall)
				break
			}
			r.note(c.id, "not accepted: %v", err)
			if try%3 == 2 {
				_ = nc.ForceReconnect() // the client may be on an isolated server
			}
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case <-time.After(60 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// send submits the call once, in one of the ways that a client can choose.
func (c soakCall) send(nc *nats.Conn, way int) (accepted bool, err error) {
	kind, msg := "call", nats.NewMsg("")
	if c.raw {
		kind = "raw"
	}
	msg.Data = []byte(c.body())
	switch way {
	case 0: // the short form; all calls of a tool have one subject
		msg.Subject = fmt.Sprintf("stevedore.%s.%s.%s", kind, c.queue, c.tool)
		msg.Header.Set("Nats-Msg-Id", c.session+"."+c.id)
	case 1: // the long form
		msg.Subject = fmt.Sprintf("stevedore.%s.%s.%s.%s.%s", kind, c.queue, c.tool, c.session, c.id)
	default: // a worker publishes it
		msg.Subject = fmt.Sprintf("stevedore.rpc.submit.%s.%s.%s.%s", c.queue, c.tool, c.session, c.id)
	}
	answer, err := nc.RequestMsg(msg, 2*time.Second)
	if err != nil {
		return false, err
	}
	var ack struct {
		Seq   int
		Error *struct {
			ErrCode int `json:"err_code"`
		}
		ID string // the worker's answer to a submit
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return false, fmt.Errorf("the answer is %.200s", answer.Data)
	}
	const subjectExists = 10077 // an earlier try was stored, or will be: try again
	if way == 1 && ack.Error != nil && ack.Error.ErrCode == subjectExists {
		stored, err := nc.Request("$JS.API.DIRECT.GET.STEVEDORE_CALLS."+msg.Subject, nil, 2*time.Second)
		return err == nil && stored.Header.Get("Status") == "", fmt.Errorf("the server says that the subject exists, and %w", err)
	}
	if ack.Seq == 0 && (ack.ID != c.id || ack.Error != nil) {
		return false, fmt.Errorf("the answer is %.200s", answer.Data)
	}
	return true, nil
}

// disturb does one thing to a process or a link.
func (r *soakRun) disturb(ctx context.Context) {
	pause := func(limit time.Duration) {
		select {
		case <-time.After(time.Duration(r.rng.Int64N(int64(limit)))):
		case <-ctx.Done():
		}
	}
	i := 1 + r.rng.IntN(len(r.workers)-1)
	w := r.workers[i]
	n := r.rng.IntN(len(r.cluster.nodes))
	server := r.cluster.nodes[n]
	switch action := r.rng.IntN(9); action {
	case 0, 1:
		r.note("", "kill worker %s", w.name)
		w.kill()
		pause(time.Second)
		w.start()
	case 2:
		r.note("", "suspend worker %s", w.name)
		w.suspend()
		pause(5 * time.Second)
		r.note("", "resume worker %s", w.name)
		w.resume()
	case 3:
		r.note("", "stop worker %s", w.name)
		if err := w.stop(); err != nil {
			r.Errorf("worker %s: %v\n%s", w.name, err, w.stderr)
		}
		w.start()
	case 4:
		r.note("", "kill the worker of async tools")
		r.async.kill()
		r.startAsync()
	case 5:
		r.note("", "kill server %s", server.Name)
		r.cluster.kill(n)
		pause(2 * time.Second)
		r.cluster.start(n)
		r.cluster.awaitReady()
		r.note("", "server %s is ready", server.Name)
	case 6:
		r.note("", "suspend server %s", server.Name)
		suspend(server.cmd.Process)
		pause(3 * time.Second)
		r.note("", "resume server %s", server.Name)
		resume(server.cmd.Process)
		r.cluster.awaitReady()
	default:
		if len(r.cluster.nodes) > 1 {
			r.disturbRoutes(n, action, pause)
		}
	}
	pause(time.Second)
}

// disturbRoutes cuts a server off from the others, in both directions or in one, or
// restarts it without its data.
func (r *soakRun) disturbRoutes(n, action int, pause func(time.Duration)) {
	name := r.cluster.nodes[n].Name
	switch other := r.cluster.nodes[(n+1)%len(r.cluster.nodes)].Name; {
	case action == 7 && r.rng.IntN(3) > 0:
		r.note("", "isolate server %s", name)
		r.cluster.isolate(n)
	case action == 7:
		r.note("", "hold back what server %s sends to %s", name, other)
		r.cluster.links.hold(name, other)
	default:
		r.note("", "wipe server %s", name)
		r.cluster.wipe(n)
	}
	pause(8 * time.Second)
	r.cluster.links.heal()
	r.cluster.awaitReady()
	r.note("", "server %s is back", name)
}

// heal ends all disturbances.
func (r *soakRun) heal() {
	r.Helper()
	r.cluster.links.heal()
	for _, n := range r.cluster.nodes {
		resume(n.cmd.Process)
	}
	for _, w := range r.workers {
		w.resume()
	}
	r.cluster.awaitReady()
	r.note("", "all servers and workers run")
}

// awaitEnds waits until all accepted calls have a result, and all async ones a
// completion, and all notifications are sent.
func (r *soakRun) awaitEnds(nc *nats.Conn) {
	r.Helper()
	l := &load{plain: plain{r.T, nc}}
	missing := 0
	l.until("end all accepted calls", func() bool {
		js, err := nc.JetStream(nats.MaxWait(testTimeout))
		if err != nil {
			return false
		}
		results, completions := r.results(js, "stevedore.result.>"), r.results(js, "stevedore.completion.>")
		missing = 0
		for id, c := range r.accepted {
			if len(results[id]) == 0 || c.kind == "async" && results[id][0].text("outcome") == "async" && len(completions[id]) == 0 {
				missing++
			}
		}
		time.Sleep(200 * time.Millisecond)
		return missing == 0 || time.Since(r.began) > 10*time.Minute
	})
	for _, consumer := range []string{"STEVEDORE_RESULTS.notifier", "STEVEDORE_DEAD.notifier-dead"} {
		l.until("read all results as the notifier", func() bool {
			var info struct {
				NumPending    int `json:"num_pending"`
				NumAckPending int `json:"num_ack_pending"`
			}
			err := json.Unmarshal([]byte(l.info("CONSUMER.INFO."+consumer)), &info)
			return err == nil && info.NumPending == 0 && info.NumAckPending == 0
		})
	}
	l.until("empty the outbox", func() bool { return l.count("STEVEDORE_OUTBOX", ">") == 0 })
}
