package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/tools"
)

// formerCommit is the last commit whose streams all have version 3 of their format: the version
// before every step that moves what is stored.
const formerCommit = "b4236a65"

var buildFormer = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	program := filepath.Join(cache, "stevedore-test", formerCommit, "stevedore")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(program), "build-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	// With the modules of today, only the program itself is not in the cache of builds yet.
	today, err := exec.Command("go", "list", "-m", "-f", "-require={{.Path}}@{{.Version}}", "golang.org/x/sys", "github.com/klauspost/compress",
		"github.com/nats-io/nkeys", "github.com/nats-io/jwt/v2", "github.com/nats-io/nats-server/v2").Output()
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"git", "-C", "..", "archive", "-o", filepath.Join(dir, "source.tar"), formerCommit, "go.mod", "go.sum", "bus", "cmd", "offload", "state", "tools", "integration/hosts"},
		{"tar", "-xf", filepath.Join(dir, "source.tar"), "-C", dir},
		append([]string{"go", "mod", "edit"}, append(strings.Fields(string(today)), filepath.Join(dir, "go.mod"))...),
		{"sh", "-c", `cat ../go.sum >> "$0"/go.sum`, dir},
		{"go", "build", "-C", dir, "-mod=mod", "-buildvcs=false", "-o", "stevedore", "./cmd/worker"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%q: %w\n%s", args, err, out)
		}
	}
	return program, os.Rename(filepath.Join(dir, "stevedore"), program)
})

// formerProgram returns the program of formerCommit. It is built once and kept, because that takes
// half a minute.
func formerProgram(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds the version before")
	}
	if err := exec.Command("git", "cat-file", "-e", formerCommit+"^{commit}").Run(); err != nil {
		t.Skipf("this clone does not have the commit %s, which is the version before: git fetch --unshallow", formerCommit)
	}
	program, err := buildFormer()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// stored is what the version before has stored: one thing of each kind.
type stored struct {
	up
	backup    string
	heartbeat string // the time of the next one
}

func (s stored) script() string { return filepath.Join(s.workspace, "script.jsonl") }

// nextHeartbeat returns when a server's status says that the heartbeat runs next.
func nextHeartbeat(t *testing.T, program string, where ...string) string {
	t.Helper()
	o := runProgram(t, program, append([]string{"status"}, where...)...)
	_, rest, _ := strings.Cut(o.stdout, "every 24h")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		t.Fatalf("no heartbeat: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	return fields[0] + " " + fields[1]
}

// storeFormer fills a data directory with the version before, and makes a backup with it.
func storeFormer(t *testing.T, program string) stored {
	t.Helper()
	s := stored{up: up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}, backup: filepath.Join(t.TempDir(), "backup")}
	for name, text := range map[string]string{
		"big.txt": strings.Repeat("a line\n", 20_000), "HEARTBEAT.md": "Check the mail.\n",
		"script.jsonl": `{"text":"the first answer"}` + "\n" + `{"text":"the second answer"}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(s.workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := launchCommand(exec.Command(program, append(s.args(), "--console", "off", "--model", "script:"+s.script(), "--heartbeat-every", "24h")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	where := []string{"--data", s.data}
	for _, args := range [][]string{
		{"call", "read_file", "path=big.txt", "--id", "big"},
		{"agent", "--session", "talk", "hello"},
		{"memory", "add", "the office is closed"},
		{"cron", "add", "report", "read_file", "path=big.txt", "--cron", "0 9 * * *"},
		{"cron", "add", "once", "message", "content=hi", "--at", "2099-01-01T00:00:00Z"},
	} {
		if o := runProgram(t, program, append(args, where...)...); o.code != 0 {
			t.Fatalf("%q: %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	c := connect(t, urlOf(t, p))
	c.publish("stevedore.call.later.read_file.default.waits", `{"args":{"path":"big.txt"}}`) // no worker serves this queue
	c.publish("stevedore.notify.later", `{"text":"a notification","chat_id":"c1"}`)          // no notifier serves this channel
	c.publish("stevedore.call.default.read_file.s.bad", "no call")
	await(t, p, "the dead letter", func() bool {
		return strings.Contains(runProgram(t, program, append([]string{"dead", "ls"}, where...)...).stdout, "read_file")
	})
	s.heartbeat = nextHeartbeat(t, program, where...)
	if o := runProgram(t, program, append([]string{"backup", s.backup}, where...)...); o.code != 0 {
		t.Fatalf("backup: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if err := p.stop(); err != nil {
		t.Fatalf("%v\n%s", err, p.stderr)
	}
	return s
}

// settings are those of a worker of this version that serves what waits.
func (s stored) settings(file string) []string {
	return []string{"--queue", "default,later", "--channel", "later=file:" + file, "--model", "script:" + s.script()}
}

// check checks that everything is there.
func (s stored) check(t *testing.T, p *process, file string, where ...string) {
	t.Helper()
	for _, c := range []struct{ args, want string }{
		{"call read_file path=big.txt --id big --json", `"attempt":1`}, // the stored result; the tool does not run again
		{"call read_file path=big.txt --id waits --queue later --json", `"id":"waits"`},
		{"artifacts grep big line -m 1", "a line"},
		{"sessions show talk", "the first answer"},
		{"agent --session talk again", "answer"}, // the conversation goes on
		{"cron ls", "report  "},
		{"cron ls", "2099-01-01"},
		{"memory ls", "the office is closed"},
		{"dead ls", "read_file"},
	} {
		if o := runProgram(t, workerProgram, append(strings.Fields(c.args), where...)...); o.code != 0 || !strings.Contains(o.stdout, c.want) {
			t.Errorf("%s: %d, no %q in\n%s%s", c.args, o.code, c.want, o.stdout, o.stderr)
		}
	}
	if next := nextHeartbeat(t, workerProgram, where...); next != s.heartbeat {
		t.Errorf("the next heartbeat is at %s, want %s", next, s.heartbeat)
	}
	await(t, p, "the notification", func() bool {
		text, _ := os.ReadFile(file)
		return bytes.Contains(text, []byte("a notification"))
	})
}

// What the version before has stored is moved whole.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := storeFormer(t, formerProgram(t))
	t.Run("directory", func(t *testing.T) { t.Parallel(); upgradeDirectory(t, s) })
	t.Run("backup", func(t *testing.T) { t.Parallel(); upgradeBackup(t, s) })
}

// The directory is moved also if the process is killed while it moves.
func upgradeDirectory(t *testing.T, s stored) {
	file := filepath.Join(t.TempDir(), "later.jsonl")
	args := append(append(s.args(), "--console", "off", "--heartbeat-every", "24h"), s.settings(file)...)
	cmd := exec.Command(workerProgram, args...)
	cmd.Env = cleanEnvironment()
	stderr := &lockedBuffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the move", func() bool { return strings.Contains(stderr.String(), "moving what an earlier version stored") })
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	p := start(t, args...)
	s.check(t, p, file, "--data", s.data)
	copied := filepath.Join(s.data, "before-upgrade", "STEVEDORE_OUTBOX-3", "backup.json")
	if text, err := os.ReadFile(copied); err != nil || !bytes.Contains(text, []byte(`"messages":1`)) {
		t.Errorf("the copy of the outbox: %s, %v", text, err)
	}
}

// A backup is restored, and moved.
func upgradeBackup(t *testing.T, s stored) {
	url := bustest.Listen(t).URL()
	if o := runProgram(t, workerProgram, "restore", s.backup, "--server", url); o.code != 0 {
		t.Fatalf("restore: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	file := filepath.Join(t.TempDir(), "later.jsonl")
	p := start(t, append([]string{"serve", "--server", url, "--data", t.TempDir(), "--workspace", s.workspace}, s.settings(file)...)...)
	s.check(t, p, file, "--server", url)
}

// While calls and notifications arrive, a cluster goes from the version before to this one, back,
// and to this one again. Each call runs once, and each notification is sent once, unless the server delivered it again
// because a machine that has other work was too late for the lease.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	former := formerProgram(t)
	url := bustest.Listen(t).URL()
	workspace, file := t.TempDir(), filepath.Join(t.TempDir(), "log.jsonl")
	var all []*process
	serve := func(program string) *process {
		t.Helper()
		p, err := launchCommand(exec.Command(program, "serve", "--server", url, "--data", t.TempDir(), "--workspace", workspace, "--shell-sandbox", "off",
			"--channel", "log=file:"+file, "--log-level", "debug"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		all = append(all, p)
		return p
	}
	stop := func(p *process) {
		t.Helper()
		if err := p.stop(); err != nil {
			t.Fatalf("%v\n%s", err, p.stderr)
		}
	}
	if o := runProgram(t, former, "provision", "--server", url); o.code != 0 {
		t.Fatalf("provision: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	old := serve(former)

	c, enough := connect(t, url), make(chan struct{})
	sent := make(chan int, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		for pause := time.NewTicker(300 * time.Millisecond); ; n++ {
			select {
			case <-enough:
				return
			case <-pause.C:
			}
			c.publish(fmt.Sprintf("stevedore.call.default.shell.s.c%d", n), fmt.Sprintf(`{"args":{"command":"echo c%d >> ran"}}`, n))
			c.publish("stevedore.notify.log", fmt.Sprintf(`{"text":"n%d.","chat_id":"chat%d"}`, n, n%3))
		}
	}()

	o := runProgram(t, workerProgram, "provision", "--server", url)
	if o.code == 0 || !strings.Contains(o.stdout, "STEVEDORE_OUTBOX: version 3 to 3.1") || !strings.Contains(o.stdout, "STEVEDORE_TICKS: version 3 to 3.1") || !strings.Contains(o.stdout, "may go on") || !strings.Contains(o.stderr, "provision --update") {
		t.Errorf("provision: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	for _, args := range [][]string{{"serve", "--data", t.TempDir()}, {"call", "list_dir", "path=."}, {"artifacts", "ls"}, {"status"}, {"doctor", "--data", t.TempDir()}} {
		o := runProgram(t, workerProgram, append(args, "--server", url)...)
		if all := o.stdout + o.stderr; o.code == 0 || strings.Count(all, "STEVEDORE_TICKS, STEVEDORE_OUTBOX: version 3 instead of version 3.1") != 1 || strings.Contains(all, " rm ") {
			t.Errorf("%q before the step: %d\n%s", args, o.code, all)
		}
	}
	if o := runProgram(t, workerProgram, "provision", "--update", "--server", url); o.code != 0 || !strings.Contains(o.stdout, "Updated.") {
		t.Fatalf("provision --update: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	current := serve(workerProgram)
	stop(old)
	old = serve(former)
	stop(current)
	current = serve(workerProgram)
	stop(old)
	close(enough)
	n := <-sent

	ids := map[string]string{}
	count := func(name, separator string) map[string]int {
		text, _ := os.ReadFile(name)
		found := map[string]int{}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if separator != "" {
				var sent struct{ ID, Text string }
				_ = json.Unmarshal([]byte(line), &sent) // the test fails without the text
				line, _, _ = strings.Cut(sent.Text, separator)
				ids[line] = sent.ID
			}
			found[line]++
		}
		return found
	}
	ran, delivered := filepath.Join(workspace, "ran"), map[string]int{}
	await(t, current, fmt.Sprint(n, " calls and notifications"), func() bool {
		delivered = count(file, ".")
		return len(count(ran, "")) == n && len(delivered) == n
	})
	for i := range n {
		if times := count(ran, "")[fmt.Sprint("c", i)]; times != 1 {
			t.Errorf("the call c%d ran %d times", i, times)
		}
		if name := fmt.Sprint("n", i); delivered[name] != 1 && !deliveredAgain(all, ids[name]) {
			t.Errorf("the notification %s was sent %d times:\n%s", name, delivered[name], linesOf(all, ids[name]))
		}
	}
	t.Logf("%d calls and notifications", n)
}

// linesOf returns what the logs of processes say of a notification.
func linesOf(all []*process, notification string) string {
	var found strings.Builder
	for i, p := range all {
		for line := range strings.Lines(p.stderr.String()) {
			if strings.Contains(line, tools.Token(notification)) {
				fmt.Fprintf(&found, "process %d: %s", i, line)
			}
		}
	}
	return found.String()
}

// deliveredAgain reports whether the log of a process says that it sent a notification at an attempt after the first.
func deliveredAgain(all []*process, notification string) bool {
	for _, p := range all {
		for line := range strings.Lines(p.stderr.String()) {
			var entry struct {
				Message, Notification string
				Attempt               int
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "delivered" && entry.Notification == tools.Token(notification) && entry.Attempt > 1 {
				return true
			}
		}
	}
	return false
}

// A step that workers of the version before cannot run beside waits until they stop.
func TestUpgradeWaitsForWorkers(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{})
	p, err := launch("serve", "--server", s.URL(), "--data", t.TempDir(), "--workspace", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	name := b.StreamName(bus.Results)
	stream, err := b.JetStream().Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata = map[string]string{jsapi.FormatKey: "2"}
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	o := worker(t, "provision", "--server", s.URL())
	if o.code == 0 || !strings.Contains(o.stdout, "STEVEDORE_RESULTS: version 2 to 3") || !strings.Contains(o.stdout, "; stop the workers of the version before") {
		t.Errorf("provision: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = worker(t, "provision", "--update", "--server", s.URL())
	if o.code == 0 || !strings.Contains(o.stderr, "workers that answer: 1") {
		t.Errorf("provision --update beside a worker: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if _, err := b.Formats(t.Context()); err == nil {
		t.Error("the stream was moved beside a worker")
	}
	if err := p.stop(); err != nil {
		t.Fatalf("%v\n%s", err, p.stderr)
	}
	if o := worker(t, "provision", "--update", "--server", s.URL()); o.code != 0 || !strings.Contains(o.stdout, "STEVEDORE_RESULTS: version 2 to 3") {
		t.Errorf("provision --update: %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if _, err := b.Formats(t.Context()); err != nil {
		t.Error(err)
	}
}
