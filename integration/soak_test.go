package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The soak tests run clients, workers and servers as processes. They kill, suspend, stop,
// wipe and isolate them, fill their disks and streams, and break their links, in an order
// that a seed determines. The servers have the configuration that "stevedore provision
// --server-config" writes, and some clients may use one session only. The ledger then
// checks every promise. STEVEDORE_SOAK sets the duration of the disturbances and
// STEVEDORE_SOAK_SEED repeats the order of a failed run.

func TestSoakOneServer(t *testing.T) { soak(t, 1, 5*time.Second) }

func TestSoakThreeServers(t *testing.T) {
	slow.Test(t)
	soak(t, 3, 5*time.Second)
}

const (
	agentReply = "The note is read."
	bigLines   = 6000

	workerLease = 2 * time.Second
)

// bigLine is a line of the file whose content workers offload.
func bigLine(n int) string { return fmt.Sprintf("line %d of a file that is too large for a prompt", n) }

// linkNames names the links that faults break. Half of the clients share one; w1, w2 and the
// worker of async tools have one each.
var linkNames = []string{"clients", "w1", "w2", "async"}

// soakRun is one run of a soak test.
type soakRun struct {
	*ledger
	cluster   *natsCluster
	config    string // directory of the server's configuration and of the keys
	operator  *nats.Conn
	workspace string
	workers   []*soakWorker
	async     *child
	asyncLogs []*lockedBuffer
	links     map[string]*clientLink
	limits    map[string]json.Number // former sizes of the streams that were full
	next      atomic.Int64           // number of the next call
	spied     atomic.Int64           // reads that spies tried
	refused   atomic.Int64           // of them, those that were answered with an error
}

func soak(t *testing.T, servers int, duration time.Duration) {
	if testing.Short() {
		t.Skip("it takes long under the race detector, which does not see the processes")
	}
	if text := os.Getenv("STEVEDORE_SOAK"); text == "" {
		if servers == 1 {
			t.Skip("\"make soak\" runs it; the short run has three servers, and the simulator one")
		}
		t.Parallel() // a short run mostly waits
	} else {
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
	r := &soakRun{ledger: newLedger(t), workspace: t.TempDir(), config: filepath.Join(t.TempDir(), "config"), links: map[string]*clientLink{}, limits: map[string]json.Number{}}
	r.logs = r.logsOf
	r.prepare(servers)
	before := r.workers[0].usage(t)
	r.phase("the load begins")

	ctx, stop := context.WithTimeout(t.Context(), duration)
	var running sync.WaitGroup
	defer func() { // also if this goroutine ends with Fatal: the others must not use t later
		stop()
		running.Wait()
	}()
	pause := 60 * time.Millisecond
	if os.Getenv("STEVEDORE_SOAK") == "" {
		pause *= 3
	}
	for i := range 6 {
		client := soakClient{name: fmt.Sprint("client ", i), url: r.cluster.url(), nkey: r.key("red-operator"), pause: pause}
		if i%2 == 0 {
			client.url = r.links["clients"].urls
		}
		if i >= 4 { // a client of one session
			client.session = fmt.Sprint("t", i)
			client.nkey = r.key("red-session-" + client.session)
		}
		running.Go(func() { r.submit(ctx, client) })
	}
	for _, tenant := range []string{"red", "blue"} {
		spy := soakClient{name: "spy of " + tenant, url: r.cluster.url(), nkey: r.key(tenant + "-session-spy"), session: "spy"}
		running.Go(func() { r.spy(ctx, spy) })
	}
	running.Go(func() { r.disturb(ctx, seed, ofServers, serverFaults) })
	r.disturb(ctx, seed, ofProcesses, processFaults)
	running.Wait()
	r.phase("the faults have ended")
	r.heal()
	r.phase("everything works again")
	ended := r.awaitEnds()
	ended = r.awaitNotified(r.operator) && ended
	r.phase("the check begins")
	r.check(r.operator, r.workspace)
	r.checkUsage(before)
	if !ended {
		r.dump()
	}
	t.Logf("%d reads of other sessions and tenants: %d were answered with an error, the server dropped the others", r.spied.Load(), r.refused.Load())
}

func (r *soakRun) phase(text string) {
	r.Helper()
	r.Logf("%s after the start: %s", time.Since(r.began).Round(100*time.Millisecond), text)
}

func (r *soakRun) key(user string) string { return filepath.Join(r.config, user+".nk") }

// writeFiles writes what the tools read.
func (r *soakRun) writeFiles() {
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
}

// prepare starts the servers, provisions the bus and starts the workers. The first worker
// is never disturbed, so that its memory can be compared.
func (r *soakRun) prepare(servers int) {
	r.Helper()
	r.writeFiles()
	o := worker(r.T, "provision", "--server-config", r.config, "--tenant", "red,blue", "--client", "red/t4,red/t5,red/spy,blue/spy")
	if o.code != 0 {
		r.Fatalf("provision --server-config: %s%s", o.stdout, o.stderr)
	}
	r.cluster = startTenantCluster(r.T, servers, filepath.Join(r.config, "nats-server.conf"), r.key("red-operator"))
	for _, tenant := range []string{"red", "blue"} { // the workers create their consumers, with a short lease
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			o := worker(r.T, "provision", "--server", r.cluster.url(), "--nkey", r.key(tenant+"-operator"), "--replicas", strconv.Itoa(servers), "--queue", "unused")
			if o.code == 0 {
				break
			}
			if time.Since(began) > testTimeout { // a new cluster does not know all its servers at once
				r.Fatalf("provision: %s%s", o.stdout, o.stderr)
			}
		}
	}
	nc, err := soakClient{name: "operator", url: r.cluster.url(), nkey: r.key("red-operator")}.connect()
	if err != nil {
		r.Fatal(err)
	}
	r.T.Cleanup(nc.Close)
	r.operator = nc
	for _, name := range linkNames {
		r.links[name] = r.cluster.link()
	}
	for i := range 3 {
		w := &soakWorker{run: r, name: fmt.Sprint("w", i), url: r.cluster.url(), health: bustest.FreePort(r.T)}
		if i > 0 {
			w.url = r.links[w.name].urls
		}
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
	r.startAsync(r.links["async"].urls)
}

func (r *soakRun) startAsync(url string) {
	env := []string{serverEnv + "=" + url, runsEnv + "=" + filepath.Join(r.workspace, "ran"), queueEnv + "=async"}
	if r.config != "" {
		env = append(env, nkeyEnv+"="+r.key("red-worker"))
	}
	r.async = startChild(r.T, "worker", env...)
	r.asyncLogs = append(r.asyncLogs, r.async.stderr)
}

// soakWorker is a process of the real program.
type soakWorker struct {
	*process
	run       *soakRun
	name, url string
	health    int
	earlier   []*process // processes of this worker that have ended
}

// start starts the worker. A worker ends if no server answers, so start tries again.
func (w *soakWorker) start() {
	w.run.Helper()
	dir := w.run.workspace
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		p, err := launch("serve", "--server", w.url, "--nkey", w.run.key("red-worker"), "--inbox-prefix", "_INBOX_worker",
			"--workspace", dir, "--name", w.name, "--lease", workerLease.String(),
			"--queue", "default", "--queue", "agent", "--model", "script:"+filepath.Join(dir, "script.jsonl"), "--slots", "16", many,
			"--channel", "notes=file:"+filepath.Join(dir, "notes.jsonl"), "--default-channel", "notes",
			"--health", fmt.Sprint("127.0.0.1:", w.health), "--data", filepath.Join(dir, ".data-"+w.name))
		if err == nil {
			if w.process != nil {
				w.earlier = append(w.earlier, w.process)
			}
			w.process = p
			return
		}
		w.run.note("", "worker %s does not start: %s", w.name, lastLine(err.Error()))
		if time.Since(began) > testTimeout {
			w.run.Fatal(err)
		}
		w.health = bustest.FreePort(w.run.T) // another process may have taken the port
	}
}

func (w *soakWorker) suspend() { suspend(w.cmd.Process) }
func (w *soakWorker) resume()  { resume(w.cmd.Process) }

// usage is what a process holds.
type usage struct{ rssMiB, files, threads, goroutines int }

func (w *soakWorker) usage(t *testing.T) usage {
	u := usageOf(t, w.cmd.Process.Pid)
	u.goroutines = goroutines(t, fmt.Sprint("127.0.0.1:", w.health))
	return u
}

// usageOf returns what a process holds, without its goroutines.
func usageOf(t *testing.T, pid int) (u usage) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
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
	long := os.Getenv("STEVEDORE_SOAK") != ""
	for deadline := time.Now().Add(40 * time.Second); long && after.goroutines > before.goroutines+20 && time.Now().Before(deadline); {
		time.Sleep(200 * time.Millisecond) // idle connections and goroutines end a little later
		after = r.workers[0].usage(r.T)
	}
	r.Logf("an undisturbed worker held %+v at the start and %+v at the end", before, after)
	if after.files > before.files+20 {
		r.Errorf("the worker has %d open files, and %d at its start", after.files, before.files)
	}
	if long && after.goroutines > before.goroutines+20 {
		r.Errorf("the worker has %d goroutines, and %d at its start", after.goroutines, before.goroutines)
	}
	if after.rssMiB > before.rssMiB+150 {
		r.Errorf("the worker has %d MiB of memory, and %d at its start", after.rssMiB, before.rssMiB)
	}
}

// heal ends all disturbances.
func (r *soakRun) heal() {
	r.Helper()
	r.cluster.links.heal()
	for _, link := range r.links {
		link.heal()
	}
	for _, n := range r.cluster.nodes {
		resume(n.cmd.Process)
	}
	for _, w := range r.workers {
		w.resume()
	}
	r.cluster.awaitReady()
	r.restartEnded()
	r.restoreLimits() // a limit that a suspended server got too late may have replaced them
	r.note("", "all servers and workers run")
}

// awaitEnds waits until all accepted calls have a result, and all async ones a completion. If
// some have none in time, it reports where each of them is.
func (r *soakRun) awaitEnds() bool {
	r.Helper()
	return r.await("a call has not ended", func() (open []string) {
		js, err := r.operator.JetStream(nats.MaxWait(testTimeout))
		var results, completions map[string][]event
		if err == nil {
			results, err = r.results(js, "stevedore.result.>")
		}
		if err == nil {
			completions, err = r.results(js, "stevedore.completion.>")
		}
		if err != nil {
			return []string{err.Error()}
		}
		for _, id := range slices.Sorted(maps.Keys(r.accepted)) {
			c := r.accepted[id]
			if len(results[id]) == 0 || c.kind == "async" && results[id][0].text("outcome") == "async" && len(completions[id]) == 0 {
				open = append(open, c.kind+" "+c.session+"."+id)
			}
		}
		return open
	}, func(call string) {
		kind, name, _ := strings.Cut(call, " ")
		if session, id, ok := strings.Cut(name, "."); ok {
			r.reportCall(kind, session, id)
		}
	}, "CONSUMER.INFO.STEVEDORE_CALLS.worker-default", "CONSUMER.INFO.STEVEDORE_CALLS.worker-agent", "CONSUMER.INFO.STEVEDORE_CALLS.worker-async")
}

// await waits until find finds nothing that is open, and says every 20 s what is. If some
// of it stays open, await fails the test, and reports each and what the server says of
// streams and consumers.
func (r *soakRun) await(what string, find func() []string, report func(open string), infos ...string) bool {
	r.Helper()
	const reported = 20
	for began, logged := time.Now(), time.Now(); ; time.Sleep(200 * time.Millisecond) {
		open := find()
		if len(open) == 0 {
			return true
		}
		if time.Since(logged) > 20*time.Second {
			logged = time.Now()
			r.phase(fmt.Sprintf("%s: %d, such as %.60q", what, len(open), open[:min(len(open), 10)]))
		}
		if time.Since(began) < 3*testTimeout {
			continue
		}
		r.Errorf("%s, %s after the faults: %d", what, 3*testTimeout, len(open))
		for _, o := range open[:min(len(open), reported)] {
			report(o)
		}
		l := &load{plain: plain{r.T, r.operator}}
		for _, of := range infos {
			r.Logf("%s: %s", of, l.info(of))
		}
		return false
	}
}

// reportCall logs what is stored of a call, and which worker reports running it.
func (r *soakRun) reportCall(kind, session, id string) {
	r.Helper()
	var places strings.Builder
	for _, place := range []string{
		"STEVEDORE_CALLS.stevedore.call.*.*.%s", "STEVEDORE_CALLS.stevedore.raw.*.*.%s", "KV_stevedore_tasks.$KV.stevedore_tasks.call.%s",
		"STEVEDORE_RESULTS.stevedore.claim.%s", "STEVEDORE_RESULTS.stevedore.result.%s", "STEVEDORE_RESULTS.stevedore.completion.%s",
	} {
		stream, subject, _ := strings.Cut(fmt.Sprintf(place, session+"."+id), ".")
		msg, err := r.operator.Request("$JS.API.DIRECT.GET."+stream, fmt.Appendf(nil, `{"next_by_subj":%q,"seq":1}`, subject), 5*time.Second)
		if err != nil {
			fmt.Fprintf(&places, "\n  %s: %v", subject, err)
		} else if msg.Header.Get("Status") == "" {
			fmt.Fprintf(&places, "\n  %s: %v %.1000s", subject, msg.Header, msg.Data)
		}
	}
	for _, subject := range []string{"running." + session + "." + id, "task." + session + ".get"} {
		msg, err := r.operator.Request("stevedore.rpc."+subject, fmt.Appendf(nil, `{"id":%q}`, id), 5*time.Second)
		if err != nil {
			msg = nats.NewMsg(err.Error())
		}
		fmt.Fprintf(&places, "\n  %s answers: %.1000s", subject, msg.Data)
	}
	r.violated(id, "a call of kind %s has not ended; it is here:%s", kind, &places)
}

// dump logs the last lines of all processes, and ends them so that they print what their
// goroutines do.
func (r *soakRun) dump() {
	r.Helper()
	processes := map[string]*process{"async": {cmd: r.async.cmd, stderr: r.async.stderr, exited: r.async.exited}}
	for _, w := range r.workers {
		processes[w.name] = w.process
	}
	const lines = 30
	for _, name := range slices.Sorted(maps.Keys(processes)) {
		p := processes[name]
		log := strings.SplitAfter(strings.TrimSpace(p.stderr.String()), "\n")
		printStacks(p.cmd.Process)
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
		}
		_, stacks, _ := strings.Cut(p.stderr.String(), "SIGQUIT")
		r.Logf("the last lines of %s:\n%.20000s\nits goroutines:\n%.100000s", name, strings.Join(log[max(0, len(log)-lines):], ""), stacks)
	}
}

// logsOf returns the log lines of all workers that contain a text.
func (r *soakRun) logsOf(text string) (lines []string) {
	add := func(name string, log *lockedBuffer) {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, text) {
				lines = append(lines, name+": "+strings.TrimSpace(line))
			}
		}
	}
	for _, log := range r.asyncLogs {
		add("async", log)
	}
	for _, w := range r.workers {
		for _, log := range append(w.earlier, w.process) {
			add(w.name, log.stderr)
		}
	}
	return lines
}

// awaitNotified waits until the notifiers have sent everything.
func (r *soakRun) awaitNotified(nc *nats.Conn) bool {
	r.Helper()
	l := &load{plain: plain{r.T, nc}}
	r.phase("the wait for all notifications begins")
	consumers := []string{"CONSUMER.INFO.STEVEDORE_RESULTS.notifier", "CONSUMER.INFO.STEVEDORE_DEAD.notifier-dead", "CONSUMER.INFO.STEVEDORE_OUTBOX.notify-notes", "CONSUMER.INFO.STEVEDORE_OUTBOX.notify-console"}
	return r.await("a notification was not sent", func() (open []string) {
		for _, consumer := range consumers {
			var info struct {
				NumPending    int `json:"num_pending"`
				NumAckPending int `json:"num_ack_pending"`
			}
			text := l.info(consumer)
			if err := json.Unmarshal([]byte(text), &info); err != nil || info.NumPending+info.NumAckPending > 0 || strings.Contains(text, `"error"`) {
				open = append(open, consumer)
			}
		}
		if n := l.count("STEVEDORE_OUTBOX", ">"); n != 0 && len(open) == 0 { // a cluster can keep notifications that are settled
			r.Logf("%d in the outbox", n)
		}
		return open
	}, func(open string) { r.Log(open) }, append(consumers, "STREAM.INFO.STEVEDORE_OUTBOX", "CONSUMER.LIST.STEVEDORE_OUTBOX")...)
}
