package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// A worker writes what calls, results, MCP servers and users send to its log and to its console only
// as visible text, and nothing in it begins a line.
func TestForgedTextsInTheLog(t *testing.T) {
	slow.Test(t)
	for _, format := range []string{"text", "json"} {
		for _, terminal := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, terminal %v", format, terminal), func(t *testing.T) {
				t.Parallel()
				out, lines := logOf(t, format, terminal), 0
				if bad := strings.IndexFunc(ownSequences.ReplaceAllString(out, ""), controls); bad >= 0 {
					t.Errorf("the log has a control character:\n%q", out)
				}
				for line := range strings.Lines(out) {
					if strings.HasPrefix(strings.TrimSpace(line), "FORGED") && !strings.HasPrefix(line, "  ") { // a text is indented
						t.Errorf("a forged line: %q", line)
					}
					if strings.HasPrefix(line, "{") {
						if lines++; !json.Valid([]byte(line)) {
							t.Errorf("not JSON: %q", line)
						}
					}
				}
				if n := strings.Count(out, "EVIL"); n < 8 || format == "json" && lines < 8 {
					t.Errorf("%d evil texts, %d lines of JSON:\n%s", n, lines, out)
				}
			})
		}
	}
}

// logOf returns what "stevedore up" prints while it gets evil messages.
func logOf(t *testing.T, format string, terminal bool) string {
	dir := t.TempDir()
	server := filepath.Join(dir, "server.sh")
	list := `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":` + quoted(evil) + `,"description":` + quoted(evil) + `,"inputSchema":{"type":"object"}}]}}`
	script := `printf '%s' ` + "'" + evil + "'" + ` >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":` +
		quoted(evil) + `,"version":"1"}}}';;
  *'"tools/list"'*) echo '` + strings.ReplaceAll(list, "%s", `'"$id"'`) + `';;
  esac
done
`
	if err := os.WriteFile(server, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "stevedore")
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "stevedore", "up", "--log-level", "debug", "--log-format", format, "--workspace", dir, "--mcp", "evil="+server,
		"--mcp", "gone=/nothing/"+evil, "--ask", "write_file", "--heartbeat-enabled=false")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "STEVEDORE_LISTEN=127.0.0.1:0", "STEVEDORE_NO_SYNC=true", "TERM=xterm")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer stop()
		var url []byte
		bustest.WaitUntil(t, "the worker", func() (ok bool) {
			url, _ = os.ReadFile(filepath.Join(data, "server.url"))
			return len(url) > 0
		})
		b, err := bus.Connect(t.Context(), bus.Config{Server: strings.TrimSpace(string(url)), Log: bustest.Log(t)})
		if err != nil {
			t.Error(err)
			return
		}
		defer b.Close()
		e := quoted(evil)
		for subject, body := range map[string]string{
			b.Call("default", "shell", "s", "c1"):      evil,
			b.Call("default", "shell", "s", "c2"):      `{"id":` + e + `,"session":"s","tool":` + e + `,"args":{}}`,
			b.Call("default", "nothing", "s", "c3"):    `{"id":"c3","session":"s","tool":"nothing","action":` + e + `,"channel":` + e + `,"args":{` + e + `:1}}`,
			b.Call("default", "write_file", "s", "c4"): `{"id":"c4","session":"s","tool":"write_file","args":{"path":` + e + `,"content":` + e + `}}`,
			b.Call("default", "message", "s", "c5"):    `{"id":"c5","session":"s","tool":"message","args":{"content":` + e + `}}`,
			b.Call("default", "read_file", "s", "c6"):  `{"id":"c6","session":"s","tool":"read_file","args":{"path":` + e + `}}`,
			b.Raw("default", "mine", "s", "r1"):        `{"id":"r1","session":"s","tool":"mine","for_llm":` + e + `,"for_user":` + e + `,"channel":"console"}`,
			b.Raw("default", "mine", "s", "r2"):        evil,
			b.Notify("nowhere", "x"):                   `{"id":` + e + `,"channel":"nowhere","text":` + e + `}`,
			b.Notify("console", "x"):                   strings.ReplaceAll(`{"id":E,"kind":E,"channel":"console","tool":E,"session":E,"note":E,"text":E}`, "E", e),
			b.Notify("console", "y"):                   evil,
		} {
			if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
				t.Error(subject, err)
			}
		}
		bustest.WaitUntil(t, "the calls to end", func() bool { return bustest.Waiting(t, b) == 0 })
		bustest.WaitUntil(t, "the dead letters", func() bool { return bustest.Messages(t, b, bus.Dead) >= 2 })
		bustest.WaitUntil(t, "the notifications", func() bool { return bustest.Messages(t, b, bus.Outbox) <= 1 })
	}()
	defer func() { <-ended }()
	if terminal {
		return onScreen(t, func(terminal *os.File) {
			cmd.Stdout, cmd.Stderr = terminal, terminal
			_ = cmd.Run()
		})
	}
	out, _ := cmd.CombinedOutput()
	return string(out)
}
