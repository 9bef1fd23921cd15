package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// fault is one kind of disturbance. run ends the disturbance before it returns.
type fault struct {
	name    string
	cluster bool // needs more than one server
	run     func(*soakRun, *chaos)
}

// Faults of servers and their disks, and faults of workers and their links. Two goroutines
// cause them, so that they overlap.
var (
	serverFaults = []fault{
		{"kill", false, (*soakRun).killServer},
		{"suspend", false, (*soakRun).suspendServer},
		{"stop", false, (*soakRun).stopServer},
		{"full stream", false, (*soakRun).fillStream},
		{"full disk", false, (*soakRun).fillDisk},
		{"isolate", true, (*soakRun).isolateServer},
		{"one way", true, (*soakRun).holdRoute},
		{"wipe", true, (*soakRun).wipeServer},
		{"rolling", true, (*soakRun).restartAll},
	}
	processFaults = []fault{
		{"kill worker", false, (*soakRun).killWorker},
		{"kill worker", false, (*soakRun).killWorker},
		{"suspend worker", false, (*soakRun).suspendWorker},
		{"stop worker", false, (*soakRun).stopWorker},
		{"kill async", false, (*soakRun).killAsync},
		{"cut link", false, (*soakRun).cutLink},
		{"half-open link", false, (*soakRun).halveLink},
		{"silent link", false, (*soakRun).holdLink},
		{"slow link", false, (*soakRun).slowLink},
	}
)

// The goroutines that disturb. Each has its own sequence of random numbers for a seed.
const (
	ofServers = iota
	ofProcesses
)

// chaos is the source of one goroutine's disturbances. The seed determines all of them.
type chaos struct {
	context.Context
	*rand.Rand
}

// pause waits for up to limit.
func (c *chaos) pause(limit time.Duration) {
	select {
	case <-time.After(time.Duration(c.Int64N(int64(limit)))):
	case <-c.Done():
	}
}

// disturb causes faults one after the other until ctx ends. STEVEDORE_SOAK_FAULTS, a
// regular expression of their names, selects some.
func (r *soakRun) disturb(ctx context.Context, seed, goroutine uint64, faults []fault) {
	c := &chaos{ctx, rand.New(rand.NewPCG(seed, goroutine))}
	selected := regexp.MustCompile(os.Getenv("STEVEDORE_SOAK_FAULTS"))
	if os.Getenv("STEVEDORE_SOAK") == "" { // the short run leaves out faults after which some calls wait for half a minute
		selected = regexp.MustCompile("^(kill|suspend|stop|isolate|one way|wipe|cut|slow)")
	}
	for ctx.Err() == nil {
		if goroutine == ofProcesses { // the only one that starts workers
			r.restartEnded()
		}
		f := faults[c.IntN(len(faults))]
		if (!f.cluster || len(r.cluster.nodes) > 1) && selected.MatchString(f.name) {
			f.run(r, c)
		}
		c.pause(time.Second)
	}
}

// restartEnded starts the workers whose processes have ended, as a supervisor would: a
// worker ends if the bus does not work when it starts.
func (r *soakRun) restartEnded() {
	for _, w := range r.workers {
		select {
		case <-w.exited:
			r.Logf("worker %s ended: %.500s", w.name, lastLine(w.stderr.String()))
			w.start()
		default:
		}
	}
	select {
	case <-r.async.exited:
		r.Logf("the worker of async tools ended: %.500s", lastLine(r.async.stderr.String()))
		r.startAsync(r.links["async"].urls)
	default:
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func (r *soakRun) anyServer(c *chaos) (int, *node) {
	i := c.IntN(len(r.cluster.nodes))
	return i, r.cluster.nodes[i]
}

// anyWorker returns one of the workers, but not the first one, which stays undisturbed.
func (r *soakRun) anyWorker(c *chaos) *soakWorker { return r.workers[1+c.IntN(len(r.workers)-1)] }

func (r *soakRun) ready(server *node) {
	r.Helper()
	r.cluster.awaitReady()
	r.note("", "server %s is ready", server.Name)
}

func (r *soakRun) killServer(c *chaos) {
	i, server := r.anyServer(c)
	r.note("", "kill server %s", server.Name)
	r.cluster.kill(i)
	c.pause(2 * time.Second)
	r.cluster.start(i)
	r.ready(server)
}

func (r *soakRun) suspendServer(c *chaos) {
	_, server := r.anyServer(c)
	r.note("", "suspend server %s", server.Name)
	suspend(server.cmd.Process)
	c.pause(3 * time.Second)
	r.note("", "resume server %s", server.Name)
	resume(server.cmd.Process)
	r.ready(server)
}

func (r *soakRun) stopServer(c *chaos) {
	i, server := r.anyServer(c)
	r.note("", "stop server %s", server.Name)
	r.cluster.stop(i)
	r.cluster.start(i)
	r.ready(server)
}

func (r *soakRun) restartAll(c *chaos) {
	r.note("", "restart the servers one after the other")
	for i, server := range r.cluster.nodes {
		r.cluster.stop(i)
		r.cluster.start(i)
		r.ready(server)
	}
}

func (r *soakRun) isolateServer(c *chaos) {
	i, server := r.anyServer(c)
	r.note("", "isolate server %s", server.Name)
	r.cluster.isolate(i)
	c.pause(8 * time.Second)
	r.cluster.links.heal()
	r.ready(server)
}

func (r *soakRun) holdRoute(c *chaos) {
	i, server := r.anyServer(c)
	other := r.cluster.nodes[(i+1)%len(r.cluster.nodes)]
	r.note("", "hold back what server %s sends to %s", server.Name, other.Name)
	r.cluster.links.hold(server.Name, other.Name)
	c.pause(8 * time.Second)
	r.cluster.links.heal()
	r.ready(server)
}

func (r *soakRun) wipeServer(c *chaos) {
	i, server := r.anyServer(c)
	r.note("", "wipe server %s", server.Name)
	r.cluster.wipe(i)
	c.pause(4 * time.Second)
	r.ready(server)
}

// fillStream lets a stream accept no more than it has. The results stream would make room
// for new results by removing old ones, which the ledger still needs.
func (r *soakRun) fillStream(c *chaos) {
	stream := []string{"CALLS", "OUTBOX", "SESSIONS"}[c.IntN(3)]
	r.note("", "stream %s is full", stream)
	limit, err := r.limitStream("STEVEDORE_"+stream, "")
	if err != nil {
		r.note("", "cannot limit it: %v", err)
	}
	c.pause(4 * time.Second)
	if limit != "" {
		if _, ok := r.limits["STEVEDORE_"+stream]; !ok {
			r.limits["STEVEDORE_"+stream] = limit
		}
		r.restoreLimits()
	}
	r.note("", "stream %s has space", stream)
}

// restoreLimits gives streams the size that they had. It repeats this until it works,
// because calls wait while a stream is full.
func (r *soakRun) restoreLimits() {
	deadline := time.Now().Add(2 * testTimeout)
	for stream, limit := range r.limits {
		for {
			_, err := r.limitStream(stream, limit)
			if err == nil {
				break
			}
			r.note("", "stream %s gets no space: %v", stream, err)
			if time.Now().After(deadline) {
				r.Errorf("stream %s gets no space: %v", stream, err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// limitStream sets the size of a stream to limit, or to what it has for "", and returns
// the former limit.
func (r *soakRun) limitStream(stream string, limit json.Number) (former json.Number, err error) {
	var info struct {
		Config map[string]any
		State  struct{ Bytes json.Number }
		Error  any
	}
	answer, err := r.operator.Request("$JS.API.STREAM.INFO."+stream, nil, 2*time.Second)
	if err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(answer.Data))
	d.UseNumber() // sizes and times exceed a float
	if err := d.Decode(&info); err != nil || info.Error != nil {
		return "", fmt.Errorf("the answer is %.200s: %v", answer.Data, err)
	}
	former, _ = info.Config["max_bytes"].(json.Number)
	if limit == "" {
		if limit = info.State.Bytes; limit == "0" {
			limit = "1"
		}
	}
	info.Config["max_bytes"] = limit
	body, err := json.Marshal(info.Config)
	if err != nil {
		return "", err
	}
	if answer, err = r.operator.Request("$JS.API.STREAM.UPDATE."+stream, body, 5*time.Second); err == nil && bytes.Contains(answer.Data, []byte(`"error"`)) {
		err = errors.New(string(answer.Data))
	}
	return former, err // with an error, too: the server may have changed the limit without an answer
}

// fillDisk lets a server write no file any more, and starts it again when the disk has
// space, as an operator would.
func (r *soakRun) fillDisk(c *chaos) {
	i, server := r.anyServer(c)
	if err := limitFiles(server.cmd.Process.Pid, 1); err != nil {
		r.note("", "cannot limit the files of server %s: %v", server.Name, err)
		return
	}
	r.note("", "the disk of server %s is full", server.Name)
	c.pause(2 * time.Second)
	r.note("", "restart server %s with space on its disk", server.Name)
	r.cluster.kill(i)
	r.cluster.start(i)
	r.ready(server)
}

func (r *soakRun) killWorker(c *chaos) {
	w := r.anyWorker(c)
	r.note("", "kill worker %s", w.name)
	w.kill()
	c.pause(time.Second)
	w.start()
}

func (r *soakRun) suspendWorker(c *chaos) {
	w := r.anyWorker(c)
	r.note("", "suspend worker %s", w.name)
	w.suspend()
	c.pause(5 * time.Second)
	r.note("", "resume worker %s", w.name)
	w.resume()
}

func (r *soakRun) stopWorker(c *chaos) {
	w := r.anyWorker(c)
	r.note("", "stop worker %s", w.name)
	select {
	case <-w.exited: // restartEnded has not seen it yet
	default:
		if err := w.stop(); err != nil {
			r.Errorf("worker %s: %v\n%s", w.name, err, lastLine(w.stderr.String()))
		}
	}
	w.start()
}

func (r *soakRun) killAsync(*chaos) {
	r.note("", "kill the worker of async tools")
	r.async.kill()
	r.startAsync(r.links["async"].urls)
}

// anyLink returns the link of a client or of a worker.
func (r *soakRun) anyLink(c *chaos) (string, *clientLink) {
	name := linkNames[c.IntN(len(linkNames))]
	return name, r.links[name]
}

func (r *soakRun) cutLink(c *chaos) {
	name, link := r.anyLink(c)
	r.note("", "cut the link of %s", name)
	link.cut()
}

func (r *soakRun) halveLink(c *chaos) {
	name, link := r.anyLink(c)
	direction := c.IntN(2)
	r.note("", "end the connections of %s, so that only the %s learns of it", name, []string{"server", "process"}[direction])
	link.halve(direction)
}

func (r *soakRun) holdLink(c *chaos) {
	name, link := r.anyLink(c)
	which := c.IntN(3)
	r.note("", "hold back what %s of %s send", []string{"the process", "the servers", "both sides"}[which], name)
	for direction := range 2 {
		if which == direction || which == 2 {
			link.hold(direction)
		}
	}
	c.pause(6 * time.Second)
	if c.IntN(2) == 0 { // the cut loses what was held back; without it, everything arrives late
		link.cut()
	}
	link.heal()
	r.note("", "the link of %s works", name)
}

func (r *soakRun) slowLink(c *chaos) {
	name, link := r.anyLink(c)
	delay := time.Duration(1+c.IntN(40)) * time.Millisecond
	r.note("", "each KiB over the link of %s takes %s", name, delay)
	link.slow(delay)
	c.pause(5 * time.Second)
	link.heal()
	r.note("", "the link of %s is fast", name)
}

// spy tries to read what belongs to other sessions and tenants, with the permissions of a
// client, until ctx ends.
func (r *soakRun) spy(ctx context.Context, client soakClient) {
	nc, err := client.connect()
	if err != nil {
		r.Errorf("%s: %v", client.name, err)
		return
	}
	defer nc.Close()
	read := func(msg *nats.Msg) {
		if msg.Header.Get("Status") == "503" || bytes.Contains(msg.Data, []byte(`"error"`)) || string(msg.Data) == `{"tasks":[]}` {
			r.refused.Add(1)
			return
		}
		r.violated("", "%s read %s: %.300s", client.name, msg.Subject, msg.Data)
	}
	inbox := nats.NewInbox()
	for _, subject := range []string{inbox, "stevedore.>", "stevedore.result.>", "stevedore.stored.>", "stevedore.call.>", "$KV.>", "$O.>", "$JS.>", "_INBOX_worker.>"} {
		if _, err := nc.Subscribe(subject, read); err != nil {
			r.Error(err)
		}
	}
	for n := 1; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("soak-%d", n*50%max(50, int(r.next.Load()))) // some of them have artifacts
		for _, subject := range []string{
			"stevedore.rpc.artifact.s0.lines", "stevedore.rpc.artifact." + client.session + ".lines", "stevedore.rpc.artifact." + client.session + ".get",
			"stevedore.rpc.task.s0.list", "stevedore.rpc.task.s0.get", "stevedore.rpc.task." + client.session + ".get",
			"$JS.API.DIRECT.GET.STEVEDORE_RESULTS.stevedore.result.s0." + id, "$JS.API.STREAM.MSG.GET.STEVEDORE_RESULTS", "$JS.API.STREAM.INFO.STEVEDORE_RESULTS",
			"$JS.API.CONSUMER.MSG.NEXT.STEVEDORE_CALLS.worker-default", "$JS.API.CONSUMER.CREATE.STEVEDORE_RESULTS",
		} {
			r.spied.Add(1)
			_ = nc.PublishRequest(subject, inbox, fmt.Appendf(nil, `{"artifact_id":%q,"id":%q,"start_line":1,"end_line":9,"seq":%d}`, id, id, n))
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	_ = nc.FlushTimeout(5 * time.Second)
	time.Sleep(200 * time.Millisecond) // late answers
}
