package integration

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// memorySamples is how often TestSoakMemory looks at the process.
const memorySamples = 12

// A personal assistant that runs for long holds as much at the end as at the start. The
// load is low and nothing is disturbed, so that what grows is a leak. The server keeps
// every stored subject in memory; the short retention times bound their number.
func TestSoakMemory(t *testing.T) {
	text := os.Getenv("STEVEDORE_SOAK")
	if text == "" {
		t.Skip("make soak runs this test")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("STEVEDORE_SOAK: %v", err)
	}
	r := &soakRun{ledger: newLedger(t), workspace: t.TempDir()}
	r.writeFiles()
	health, kept := bustest.FreeAddress(t), max(duration/6, 10*time.Second).String()
	p := start(t, "up", "--json", "--listen", "127.0.0.1:0", "--console", "off", "--data", filepath.Join(t.TempDir(), "data"), "--workspace", r.workspace,
		"--queue", "default", "--queue", "agent", "--model", "script:"+filepath.Join(r.workspace, "script.jsonl"),
		"--channel", "notes=file:"+filepath.Join(r.workspace, "notes.jsonl"), "--default-channel", "notes", "--health", health,
		"--results-ttl", kept, "--sessions-ttl", kept, "--artifact-ttl", kept)
	r.startAsync(urlOf(t, p))
	sample := func() usage {
		u := usageOf(t, p.cmd.Process.Pid)
		u.goroutines = goroutines(t, health)
		t.Logf("%6s: %d calls, %+v", time.Since(r.began).Round(time.Second), r.next.Load(), u)
		return u
	}

	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.submit(ctx, soakClient{name: "memory", url: urlOf(t, p), pause: 60 * time.Millisecond})
	}()
	select { // connections, caches and the first segments of streams are no leak
	case <-time.After(min(duration/memorySamples, time.Minute)):
	case <-done:
	}
	first := sample()
	var all []usage
	for ticker := time.NewTicker(duration / memorySamples); ctx.Err() == nil; {
		select {
		case <-ticker.C:
			all = append(all, sample())
		case <-ctx.Done():
		}
	}
	<-done
	nc := reconnecting(t, urlOf(t, p)).nc
	r.awaitNotified(nc)
	nc.Close()

	highest := func(of []usage) (mib int) {
		for _, u := range of {
			mib = max(mib, u.rssMiB)
		}
		return mib
	}
	if n := len(all); duration >= 20*time.Minute {
		early, late := highest(all[n/4:n/2]), highest(all[3*n/4:])
		t.Logf("highest RSS in the second quarter: %d MiB, in the last: %d MiB", early, late)
		if late > early+early/5+8 {
			t.Errorf("the memory of stevedore up grew from %d to %d MiB", early, late)
		}
	}
	var last usage
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Second) {
		last = sample()
		if last.goroutines <= first.goroutines+10 && last.files <= first.files+5 && last.rssMiB <= first.rssMiB+64 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	t.Errorf("stevedore up held %+v at the start and %+v after the load", first, last)
}

var goroutineCount = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

// goroutines reads the number from the metrics of a process.
func goroutines(t *testing.T, health string) int {
	t.Helper()
	res, err := http.Get("http://" + health + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	m := goroutineCount.FindSubmatch(text)
	if err != nil || m == nil {
		t.Fatalf("/metrics: %v, %.200s", err, text)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}
