//go:build linux

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// confined skips the test if the system cannot confine commands with namespaces.
func confined(t *testing.T, u up) {
	t.Helper()
	if log := u.stderr.String(); strings.Contains(log, "sandbox of the shell tool is incomplete") || strings.Contains(log, "the shell tool refuses commands") {
		t.Skip(log)
	}
}

// A canary is in the environment of the worker, in the data directory and in the
// credential. No tool output, event, log or file of the workspace contains it, nor do the
// page, the traces, the metrics and the answers of MCP, whatever a command tries.
func TestCanary(t *testing.T) {
	slow.Test(t)
	u, page, traces := startTraced(t, "--log-level", "debug", "--log-format", "json", "--health", "127.0.0.1:0", "--console", "127.0.0.1:0")
	confined(t, u)
	stream := page.follow(t)
	const planted = "canary-in-the-data-directory"
	if err := os.WriteFile(filepath.Join(u.data, "planted"), []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(u.url, "stevedore:")
	password, _, _ := strings.Cut(rest, "@")
	c := connect(t, u.url)
	sub, err := c.nc.SubscribeSync("stevedore.>")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, command := range []string{
		"env; set; export", "cat /proc/*/environ /proc/*/cmdline", "cat " + u.data + "/*", "ls -laR " + u.data, "grep -r " + planted[:10] + " / --exclude-dir=usr --exclude-dir=proc --exclude-dir=lib",
		"ln -s " + u.data + " data; cat data/*", "cat ~/../../* ~/../* $TMPDIR/../*", "cp -r " + u.data + " copy; cat copy/*", "tar c " + u.data,
		"cat /proc/1/root" + u.data + "/planted", "ls /proc/*/fd/ -l", "mount; df; cat /proc/self/mountinfo", "git config -l; cat ~/.gitconfig",
		"exec 3<" + u.data + "/planted; cat <&3", "cd " + u.data + " && cat planted",
	} {
		args, err := json.Marshal(map[string]any{"args": map[string]string{"command": command}})
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(fmt.Sprintln(c.request("call.default.shell", string(args))))
	}
	for _, call := range []struct{ tool, args string }{
		{"read_file", `{"path":"` + u.data + `/planted"}`}, {"read_file", `{"path":"data/planted"}`}, {"grep", `{"pattern":"canary"}`},
		{"list_dir", `{"path":"data"}`}, {"write_file", `{"path":".git/hooks/x","content":"x"}`},
	} {
		all.WriteString(fmt.Sprintln(c.request("call.default."+call.tool, `{"args":`+call.args+`}`)))
	}
	for {
		m, err := sub.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if !strings.HasPrefix(m.Subject, "stevedore.call.") && !strings.HasPrefix(m.Subject, "stevedore.rpc.") { // they contain what this test sent
			all.Write(m.Data)
		}
	}
	for _, path := range []string{
		"/", "/static/app.js", "/api/state", "/api/status", "/api/running", "/api/waiting", "/api/calls", "/api/sessions", "/api/sessions/default", "/api/dead",
		"/api/approvals", "/api/schedules", "/api/artifacts/default", "/api/dead/1", "/api/calls/default/none", "/static/../../../data/planted", "/api/" + canary,
	} {
		all.WriteString(page.get(t, path))
	}
	all.WriteString(stream())
	all.WriteString(scrape(t, healthOf(t, u.process)))
	overHTTP, overStdio, gatewayLog := mcpAnswers(t, u, []string{"env; cat /proc/*/environ", "cat " + u.data + "/*", "seq 1 50000; env"})
	all.WriteString(overHTTP + overStdio + gatewayLog)
	_ = u.stop() // sends the last traces
	all.WriteString(traces())
	all.WriteString(u.stderr.String())
	err = filepath.WalkDir(u.workspace, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{
		"environment": canary, "data directory": planted, "credential": password, "token of the page": page.token, "token of MCP": mcpToken, "header of traces": "header-canary",
	} {
		if i := strings.Index(all.String(), secret); i >= 0 {
			t.Errorf("the canary of the %s is in: %s", name, all.String()[max(i-300, 0):i+len(secret)])
		}
	}
}

// The command of an MCP server runs in the sandbox, if the operator wants it.
func TestMCPServerInTheSandbox(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "--mcp", "probe=sh -c 'cat "+secret+" > leak; echo done > seen'", "--mcp-sandbox")
	confined(t, u)
	deadline := time.Now().Add(testTimeout)
	for {
		if _, err := os.Stat(filepath.Join(u.workspace, "seen")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the command does not run: %s", u.stderr)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if text, err := os.ReadFile(filepath.Join(u.workspace, "leak")); err != nil || len(text) > 0 {
		t.Errorf("the server read %q, %v", text, err)
	}
}

// "stevedore doctor" tells how shell runs commands with the given flags.
func TestDoctorOnTheSandbox(t *testing.T) {
	t.Parallel()
	workspace, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	for _, c := range []struct{ flags, want string }{
		{"--shell-sandbox=off", "shell runs commands without a sandbox"},
		{"--shell-network", "with the network of the host"},
		{"--shell-network=false", "without network"},
		{"--shell-read=/nosuch", "--shell-read: stat /nosuch"},
	} {
		out := worker(t, "doctor", "--workspace", workspace, "--data", data, c.flags)
		if strings.Contains(out.stdout, "shell refuses all commands") {
			t.Skip(out.stdout)
		}
		if !strings.Contains(out.stdout, c.want) {
			t.Errorf("doctor %s: %s%s", c.flags, out.stdout, out.stderr)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("doctor made the data directory")
	}
}
