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

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// The soak tests run clients, workers and servers as processes. They kill, suspend, stop,
// wipe and isolate them, fill their disks and streams, and break their links, in an order
// that a seed determines. The servers have the configuration that "stevedore provision
// --server-config" writes, and some clients may use one session only. The ledger then
// checks every promise. STEVEDORE_SOAK sets the duration of the disturbances and
// STEVEDORE_SOAK_SEED repeats the order of a failed run.

func TestSoakOneServer(t *testing.T)    { soak(t, 1, 5*time.Second) }
func TestSoakThreeServers(t *testing.T) { soak(t, 3, 8*time.Second) }

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
	defer stop()
	var running sync.WaitGroup
	for i := range 6 {
		client := soakClient{name: fmt.Sprint("client ", i), url: r.cluster.url(), nkey: r.key("red-operator"), pause: 60 * time.Millisecond}
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
	r.awaitEnds(r.operator)
	r.phase("all calls have ended")
	r.check(r.operator, r.workspace)
	r.checkUsage(before)
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
	r.shortenLeases()
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

// shortenLeases gives the notifiers' consumers, which provision created, the lease that the
// workers have. Otherwise a run waits for half a minute if a notifier was killed.
func (r *soakRun) shortenLeases() {
	r.Helper()
	js, err := r.operator.JetStream(nats.MaxWait(testTimeout))
	for _, name := range []string{"STEVEDORE_RESULTS.notifier", "STEVEDORE_DEAD.notifier-dead"} {
		stream, consumer, _ := strings.Cut(name, ".")
		var info *nats.ConsumerInfo
		if err == nil {
			info, err = js.ConsumerInfo(stream, consumer)
		}
		if err == nil {
			info.Config.AckWait = workerLease
			_, err = js.UpdateConsumer(stream, &info.Config)
		}
		if err != nil {
			r.Fatalf("shorten the lease of %s: %v", name, err)
		}
	}
}

func (r *soakRun) startAsync(url string) {
	env := []string{serverEnv + "=" + url, runsEnv + "=" + filepath.Join(r.workspace, "ran"), queueEnv + "=async"}
	if r.config != "" {
		env = append(env, nkeyEnv+"="+r.key("red-worker"))
	}
	r.async = startChild(r.T, "worker", env...)
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
		w.run.note("", "worker %s does not start: %v", w.name, err)
		if time.Since(began) > testTimeout {
			w.run.Fatal(err)
		}
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

// awaitEnds waits until all accepted calls have a result, and all async ones a
// completion, and all notifications are sent.
func (r *soakRun) awaitEnds(nc *nats.Conn) {
	r.Helper()
	l := &load{plain: plain{r.T, nc}}
	logged := time.Now()
	for deadline := time.Now().Add(3 * testTimeout); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		js, err := nc.JetStream(nats.MaxWait(testTimeout))
		if err != nil {
			continue
		}
		results, completions := r.results(js, "stevedore.result.>"), r.results(js, "stevedore.completion.>")
		missing := 0
		var ids []string
		for id, c := range r.accepted {
			if len(results[id]) == 0 || c.kind == "async" && results[id][0].text("outcome") == "async" && len(completions[id]) == 0 {
				missing++
				ids = append(ids, c.kind+" "+id)
			}
		}
		if missing == 0 {
			r.awaitNotified(nc)
			return
		}
		if time.Since(logged) > 20*time.Second {
			logged = time.Now()
			r.phase(fmt.Sprintf("%d calls have not ended: %.20q", missing, ids))
		}
	}
	for _, stream := range []string{"CALLS"} { // check reports the missing results
		for _, queue := range []string{"default", "agent", "async"} {
			r.Log(l.info("CONSUMER.INFO.STEVEDORE_" + stream + ".worker-" + queue))
		}
	}
}

// logsOf returns the log lines of all workers that contain a text.
func (r *soakRun) logsOf(text string) (lines []string) {
	for _, w := range r.workers {
		for _, log := range append(w.earlier, w.process) {
			for line := range strings.Lines(log.stderr.String()) {
				if strings.Contains(line, text) {
					lines = append(lines, w.name+": "+strings.TrimSpace(line))
				}
			}
		}
	}
	return lines
}

// awaitNotified waits until the notifiers have sent everything.
func (r *soakRun) awaitNotified(nc *nats.Conn) {
	r.Helper()
	l := &load{plain: plain{r.T, nc}}
	r.phase("all accepted calls have results")
	waits := func(done func() bool, what ...string) func() bool { // says every 20 s what it waits for
		logged := time.Now()
		return func() bool {
			if done() {
				return true
			}
			if time.Since(logged) > 20*time.Second {
				logged = time.Now()
				for _, of := range what {
					r.phase("not all notifications were sent: " + l.info(of))
				}
			}
			return false
		}
	}
	for _, consumer := range []string{"STEVEDORE_RESULTS.notifier", "STEVEDORE_DEAD.notifier-dead"} {
		l.until("read all results as the notifier", waits(func() bool {
			var info struct {
				NumPending    int `json:"num_pending"`
				NumAckPending int `json:"num_ack_pending"`
			}
			err := json.Unmarshal([]byte(l.info("CONSUMER.INFO."+consumer)), &info)
			return err == nil && info.NumPending == 0 && info.NumAckPending == 0
		}, "CONSUMER.INFO."+consumer))
	}
	l.until("empty the outbox", waits(func() bool { return l.count("STEVEDORE_OUTBOX", ">") == 0 }, "STREAM.INFO.STEVEDORE_OUTBOX", "CONSUMER.LIST.STEVEDORE_OUTBOX"))
}
