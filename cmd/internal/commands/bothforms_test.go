package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// A session that is given by its name or by its token, which lists and completion show, is the same one
// in every command. Nothing is stored of another one.
func TestCommandsTakeBothFormsOfASession(t *testing.T) {
	slow.Test(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "turns.jsonl")
	if err := os.WriteFile(script, []byte(`{"text":"an answer"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "STEVEDORE_LISTEN=127.0.0.1:0", "STEVEDORE_NO_SYNC=true")
	start := func(args ...string) (in io.WriteCloser, out *bytes.Buffer, wait func()) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "stevedore", args...)
		cmd.Env, out = env, new(bytes.Buffer)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Stdout, cmd.Stderr = out, out
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return in, out, func() { _ = cmd.Wait() }
	}
	_, _, stopped := start("up", "--workspace", dir, "--model", "script:"+script, "--ask", "write_file", "--heartbeat-enabled=false", "--offload-threshold", "10")
	t.Cleanup(stopped) // the context of the test has ended then
	var url []byte
	bustest.WaitUntil(t, "the server", func() bool {
		url, _ = os.ReadFile(filepath.Join(dir, "stevedore", "server.url"))
		return len(url) > 0
	})
	b, err := bus.Connect(t.Context(), bus.Config{Server: strings.TrimSpace(string(url)), Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	const name = "ein Gespräch/1"
	token := tools.Token(name)
	run := func(session string, line ...string) string {
		t.Helper()
		args := line
		if len(line) == 1 {
			args = strings.Fields(line[0])
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "SESSION", session)
		}
		if !slices.Contains(args, session) {
			args = append(args, "--session", session)
		}
		e := stevedore(t, invocation{Args: args, Env: env, Dir: dir})
		if e.Code != 0 {
			return fmt.Sprintf("exit status %d: %s", e.Code, e.Stderr)
		}
		return string(e.Stdout)
	}
	// stored returns the sessions of which something is stored.
	stored := func() (sessions []string) {
		for _, s := range []struct {
			stream   string
			position int
		}{{bus.Calls, 4}, {bus.Results, 2}, {bus.Sessions, 2}} {
			for m, err := range b.Read(t.Context(), s.stream, bus.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				sessions = append(sessions, strings.Split(m.Subject, ".")[s.position])
			}
		}
		slices.Sort(sessions)
		return slices.Compact(sessions)
	}

	// What has only results has a name, too.
	for i, session := range []string{name, token} {
		out := run(session, "call", "shell", "command=seq 3000", "--id", "c"+string('1'+rune(i)), "--offload=true")
		if !strings.Contains(out, "3000") {
			t.Fatalf("%s: %s", session, out)
		}
	}
	start("call", "write_file", "path=a", "content=b", "--session", name, "--id", "w1")
	start("call", "write_file", "path=a", "content=b", "--session", token, "--id", "w2")
	for _, id := range []string{"w1", "w2"} {
		bustest.WaitUntil(t, "the question", func() bool { return strings.Contains(run(name, "approvals ls"), id) })
	}
	for _, session := range []string{name, token} {
		if out := run(session, "agent", "hello", "--fresh"); !strings.Contains(out, "an answer") {
			t.Errorf("agent --session %s: %s", session, out)
		}
	}
	ages := regexp.MustCompile(`[0-9ms.]+s|"age_seconds":[0-9]+|[0-9ms]+ old|  +`)
	for _, line := range []string{
		"tasks ls", "tasks get c1", "tasks watch c2", "artifacts ls", "artifacts ls --json", "artifacts info c1", "artifacts get c1", "artifacts get c1 --all",
		"artifacts lines c1 2 3", "artifacts grep c1 2999", "artifacts sql c1 SELECT", "approvals ls", "approvals ls --json",
		"sessions show SESSION", "sessions show SESSION --trace", "sessions export SESSION", "sessions export SESSION --log",
	} {
		one, two := ages.ReplaceAllString(run(name, line), ""), ages.ReplaceAllString(run(token, line), "")
		two = strings.ReplaceAll(two, token+" --trace", cli.ShellWord(name)+" --trace") // in a command for the reader
		if one != two || strings.Contains(one, "exit status") && !strings.Contains(line, "sql") {
			t.Errorf("%s: with the name\n%s\nwith the token\n%s", line, one, two)
		}
	}
	for _, change := range []struct{ withName, withToken, want string }{
		{"approvals no w1", "approvals no w2", "Denied"},
		{"tasks cancel c1", "tasks cancel c2", "already ended"},
		{"cron add a shell command=true --every 1h", "cron add b shell command=true --every 1h", "added"},
		{"cron ls", "cron ls", "b"},
		{"cron get b", "cron get a", "every 1h"},
		{"cron disable b", "cron disable a", "disabled"},
		{"cron enable b", "cron enable a", "enabled"},
		{"cron update b --every 2h", "cron update a --every 2h", "updated"},
		{"cron rm b", "cron rm a", "removed"},
	} {
		for session, line := range map[string]string{name: change.withName, token: change.withToken} {
			if out := run(session, line); !strings.Contains(out, change.want) {
				t.Errorf("%s --session %s: %s", line, session, out)
			}
		}
	}
	for _, session := range []string{name, token} {
		in, out, ended := start("mcp", "--server", strings.TrimSpace(string(url)), "--session", session)
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"grep_knowledge","arguments":{"artifact_id":"c1","pattern":"^2999$"}}}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"shell","arguments":{"command":"echo done"}}}`,
		} {
			if _, err := io.WriteString(in, message+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		ended()
		if !strings.Contains(out.String(), "Found 1 match") {
			t.Errorf("mcp --session %s: %s", session, out)
		}
		overHTTP(t, b, env, session)
	}
	for _, command := range [][]string{{"run", "--", "true"}, {"read", "x"}, {"mcp", "wrap", "--", "true"}} {
		args := slices.Insert(slices.Clone(command), len(command)-1, "--session", token)
		if command[0] != "read" {
			args = slices.Insert(slices.Clone(command), len(command)-2, "--session", token)
		}
		if e := stevedore(t, invocation{Args: args, Env: env, Dir: dir}); e.Code == 0 || !strings.Contains(string(e.Both), "give its name") {
			t.Errorf("%q: %d, %s", args, e.Code, e.Both)
		}
	}
	unknown := tools.Token("another name")
	for _, line := range []string{
		"call shell command=true", "agent x", "cron add j shell command=true --every 1h", "mcp --server " + strings.TrimSpace(string(url)),
	} {
		if out := run(unknown, line); !strings.Contains(out, "give its name") {
			t.Errorf("%s in an unknown session: %s", line, out)
		}
	}
	for session, line := range map[string]string{name: "artifacts rm c1", token: "artifacts rm c2"} {
		if out := run(session, line); !strings.HasPrefix(out, "removed") {
			t.Errorf("%s --session %s: %s", line, session, out)
		}
	}
	if got := stored(); !slices.Equal(got, []string{token}) {
		t.Errorf("the sessions %v are stored, want only %s", got, token)
	}
	if out := run(token, "sessions rm SESSION"); out != "Session removed: "+token+"\n" {
		t.Errorf("sessions rm: %s", out)
	}
}

// overHTTP calls a tool of a gateway over HTTP, whose token opens the session.
func overHTTP(t *testing.T, b *bus.Bus, env []string, session string) {
	t.Helper()
	address := bustest.FreeAddress(t)
	data := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "stevedore", "mcp", "--server", b.Conn().ConnectedUrl(), "--session", session, "--http", address, "--data", data)
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "grep_knowledge", "arguments": map[string]string{"artifact_id": "c1", "pattern": "^2999$"}}})
	answer := ""
	bustest.WaitUntil(t, "the gateway", func() bool {
		secret, _ := os.ReadFile(filepath.Join(data, "mcp.token"))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/mcp", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answer = string(text)
		return resp.StatusCode != http.StatusUnauthorized
	})
	if !strings.Contains(answer, "Found 1 match") {
		t.Errorf("mcp --http --session %s: %s", session, answer)
	}
}
