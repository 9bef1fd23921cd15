package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// A permission that is taken from a worker while it runs is named, and nothing that follows from it. The remedy
// works: the configuration is written again and reloaded.
func TestRefusedPermissionIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config")
	paste := func(line string) {
		t.Helper()
		if got := worker(t, strings.Fields(line)...); got.code != 0 {
			t.Fatalf("stevedore %s: %+v", line, got)
		}
	}
	paste("provision --server-config " + dir)
	file := filepath.Join(dir, "nats-server.conf")
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.Port, opts.NoSigs, opts.SyncAlways = -1, true, false
	srv := run(t, opts)
	number := port(t, srv)
	reload := func(edit func(string) string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(edit(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		opts, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		opts.Port, opts.NoSigs, opts.SyncAlways = number, true, false
		if err := srv.ReloadOptions(opts); err != nil {
			t.Fatal(err)
		}
	}
	login := []string{"--server", srv.ClientURL(), "--nkey", filepath.Join(dir, "main-operator.nk")}
	paste("provision " + strings.Join(login, " "))
	serve := []string{"serve", "--server", srv.ClientURL(), "--nkey", filepath.Join(dir, "main-worker.nk"), "--inbox-prefix", "_INBOX_worker",
		"--workspace", t.TempDir(), "--data", t.TempDir(), "--health", "127.0.0.1:0"}
	p := start(t, serve...)
	named := func(what string) {
		t.Helper()
		bustest.WaitUntil(t, what, func() bool {
			found := problemsOf(t, login)
			if what == "" {
				return len(found) == 0 && readiness(t, p) == "ok"
			}
			for _, f := range found {
				if f.Code != string(trouble.Permission) {
					t.Errorf("it is also named that: %s", f)
				}
				if f.Name == what && strings.Contains(f.Advice, "provision --server-config DIR") && strings.Contains(readiness(t, p), what) {
					return true
				}
			}
			return false
		})
	}
	named("")

	reload(func(text string) string { return strings.Replace(text, `"$O.stevedore_blobs.>", `, "", 1) })
	big := append([]string{"call", "shell", "command=seq 1 30000", "--id", "c1"}, login...)
	if got := worker(t, append(big, "--wait", "1s")...); got.code != 6 {
		t.Errorf("a result that cannot be stored: %+v", got)
	}
	named("publish to $O.stevedore_blobs.>")
	paste("provision --server-config " + dir)
	reload(func(text string) string { return text })
	if got := worker(t, append(big, "--wait", "2m")...); got.code != 0 {
		t.Errorf("after the remedy: %+v", got)
	}

	reload(func(text string) string {
		return strings.Replace(text, `subscribe: [ "_INBOX_worker.>", `, "subscribe: [ ", 1)
	})
	named("subscribe to _INBOX_worker.>")
	paste("provision --server-config " + dir)
	reload(func(text string) string { return text })
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	p = start(t, serve...)
	named("")
}
