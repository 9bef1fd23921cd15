package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// The directory of the artifact store is removed. The status, /readyz, /metrics and doctor name it, a once-only
// call whose result waits for the store has its result although the process is killed, and a store that
// comes back heals.
func TestStoreIsRemoved(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	store := filepath.Join(t.TempDir(), "artifacts")
	options := []string{"--store", "disk:" + store, "--health", "127.0.0.1:0", "--shell-sandbox", "off"}
	u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	begin := func() {
		t.Helper()
		var err error
		if u.process, err = launch(append(u.args(), options...)...); err != nil {
			t.Fatal(err)
		}
		u.url = urlOf(t, u.process)
	}
	begin()
	t.Cleanup(func() { u.kill() })
	problems := func() []status.Problem { return problemsOf(t, []string{"--data", u.data}) }
	fails := func() bool {
		return slices.ContainsFunc(problems(), func(p status.Problem) bool {
			return p.Code == string(trouble.Store) && !p.Since.IsZero() && strings.Contains(p.Text, store)
		})
	}
	lines := map[string]string{"waits": "20000", "survives": "200000"} // the second text is larger than a message
	call := func(id, wait string) outcome {
		return worker(t, "call", "shell", "command=echo ran >> runs.txt; seq "+lines[id]+"; exit 7", "--id", id, "--data", u.data, "--wait", wait)
	}
	remove := func() {
		t.Helper()
		if err := os.RemoveAll(store); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the store to be named", fails)
	}

	remove()
	if got := readiness(t, u.process); !strings.Contains(got, "artifact store") || !strings.Contains(got, store) {
		t.Errorf("/readyz: %s", got)
	}
	if got := scrape(t, healthOf(t, u.process)); !strings.Contains(got, `stevedore_failing_seconds{kind="store_failing"`) {
		t.Error("no metric of the store")
	}
	if got := worker(t, "doctor", "--data", u.data, "--store", "disk:"+store); got.code != 1 || !strings.Contains(got.stdout, "The artifact store") {
		t.Errorf("doctor: %+v", got)
	}
	if got := call("waits", "1s"); got.code != 6 {
		t.Errorf("a call without a store: %+v", got)
	}
	bustest.WaitUntil(t, "the result to wait on the bus", func() bool {
		return strings.Contains(u.stderr.String(), "the result waits on the bus")
	})
	if got := worker(t, "tasks", "get", "waits", "--data", u.data); !strings.Contains(got.stdout, "running") && !strings.Contains(got.stdout, "queued") {
		t.Errorf("while the result waits: %+v", got)
	}
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	checkStored(t, call("waits", "1m"), store, "waits", lines["waits"])
	bustest.WaitUntil(t, "only the new directory to be named", func() bool {
		list := problems()
		return len(list) == 1 && list[0].Code == string(trouble.Replaced) && strings.Contains(readiness(t, u.process), "was replaced")
	})

	remove()
	if got := call("survives", "1s"); got.code != 6 {
		t.Errorf("a call without a store: %+v", got)
	}
	bustest.WaitUntil(t, "the result to wait on the bus", func() bool {
		return strings.Count(u.stderr.String(), "the result waits on the bus") == 2
	})
	u.kill()
	begin()
	checkStored(t, call("survives", "1m"), store, "survives", lines["survives"])
	if runs, err := os.ReadFile(filepath.Join(u.workspace, "runs.txt")); string(runs) != "ran\nran\n" {
		t.Errorf("the two calls ran: %q, %v", runs, err)
	}
	bustest.WaitUntil(t, "everything to be in order again", func() bool { return len(problems()) == 0 })
}

// checkStored fails the test if the result of a command that failed is not as if its store had worked.
func checkStored(t *testing.T, got outcome, store, id, last string) {
	t.Helper()
	if got.code != 3 || !strings.Contains(got.stdout, "artifact") || !strings.Contains(got.stdout, "[Exit code: 7]") {
		t.Errorf("result of %s: %+v", id, got)
	}
	content, err := os.ReadFile(filepath.Join(store, "default", id+".md"))
	if err != nil || !strings.HasPrefix(string(content), "1\n2\n") || !strings.HasSuffix(string(content), "\n"+last+"\n") {
		t.Errorf("content of %s: %d bytes, %v", id, len(content), err)
	}
}

// The status names the stores of workers that do not share one, and nothing if their paths lead to the same
// directory.
func TestDifferentStoresAreNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	server := []string{"--server", startCluster(t, 1).url(0), "--timeout", "20s"}
	dir := t.TempDir()
	first, second, link := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "link")
	serve := func(store string) *process {
		t.Helper()
		p, err := launch(append([]string{"serve", "--workspace", dir, "--store", store}, server...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	differ := func() (text string, workers int) {
		t.Helper()
		var s status.Status
		got := worker(t, append([]string{"status", "--json"}, server...)...)
		if err := json.Unmarshal([]byte(got.stdout), &s); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		for _, p := range s.Problems {
			if p.Code == status.StoresDiffer && p.Advice != "" {
				text = p.Text
			}
		}
		return text, len(s.Workers)
	}
	serve("disk:" + first)
	bustest.WaitUntil(t, "the worker", func() bool { _, n := differ(); return n == 1 })
	if err := os.Symlink(first, link); err != nil {
		t.Skip("cannot make a symbolic link: ", err)
	}
	for store, want := range map[string]string{"disk:" + link: "", "disk:" + second: "disk:" + second + " of ", "object:": "object:stevedore_blobs of "} {
		p := serve(store)
		bustest.WaitUntil(t, "both workers", func() bool { _, n := differ(); return n == 2 })
		if text, _ := differ(); (text != "") != (want != "") || !strings.Contains(text, want) || want != "" && !strings.Contains(text, "disk:"+first+" of ") {
			t.Errorf("with %s: %q", store, text)
		}
		p.kill()
		bustest.WaitUntil(t, "one worker", func() bool { _, n := differ(); return n == 1 })
	}
}
