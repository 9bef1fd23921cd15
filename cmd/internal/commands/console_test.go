package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
)

// firstLine runs a command until the test ends and decodes its first line of output. stop
// ends the command and returns its exit code.
func firstLine(t *testing.T, args ...string) (line map[string]string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, writer := io.Pipe()
	var running sync.WaitGroup
	code := 0
	running.Go(func() {
		code = run(ctx, args, strings.NewReader(""), writer, io.Discard)
		writer.Close()
	})
	stop = sync.OnceValue(func() int { cancel(); running.Wait(); return code })
	t.Cleanup(func() { stop() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("worker %v printed nothing and ended with %d", args, stop())
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
		t.Fatalf("worker %v: %v in %s", args, err, lines.Text())
	}
	running.Go(func() { _, _ = io.Copy(io.Discard, out) })
	return line, stop
}

func httpStatus(t *testing.T, method, url string, header ...string) int {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// stevedore up and stevedore console print the URL of a page that needs its token, and keep
// their tokens in files that only the owner can read.
func TestConsole(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up := []string{"up", "--json", "--data", data, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--no-sync", "--workspace", data, "--log-level", "error"}
	line, stop := firstLine(t, up...)
	page, token, ok := strings.Cut(line["console"], "?token=")
	if !ok || line["url"] == "" {
		t.Fatalf("first line %v", line)
	}
	bearer := []string{"Authorization", "Bearer " + token}
	if got := httpStatus(t, "GET", page+"api/status"); got != http.StatusUnauthorized {
		t.Errorf("without the token: %d", got)
	}
	if got := httpStatus(t, "GET", page+"api/status", bearer...); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	if got := httpStatus(t, "GET", line["console"]); got != http.StatusSeeOther {
		t.Errorf("the URL: %d", got)
	}
	if info, err := os.Stat(filepath.Join(data, "console.token")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("token file: %v, %v", info.Mode(), err)
	}

	tokenFile := filepath.Join(t.TempDir(), "token")
	console := []string{"console", "--json", "--data", data, "--console", "127.0.0.1:0", "--console-read-only", "--console-host", "page.example.com", "--console-token-file", tokenFile, "--log-level", "error"}
	second, stopConsole := firstLine(t, console...)
	page2, token2, _ := strings.Cut(second["console"], "?token=")
	bearer2 := []string{"Authorization", "Bearer " + token2}
	if got := httpStatus(t, "GET", page2+"api/status", bearer2...); got != http.StatusOK {
		t.Errorf("stevedore console: %d", got)
	}
	if got := httpStatus(t, "GET", page2+"api/status", bearer...); got != http.StatusUnauthorized {
		t.Errorf("stevedore console with the token of stevedore up: %d", got)
	}
	if got := httpStatus(t, "POST", page2+"api/dead/remove", bearer2...); got != http.StatusForbidden {
		t.Errorf("read-only: %d", got)
	}
	if stored, err := os.ReadFile(tokenFile); err != nil || strings.TrimSpace(string(stored)) != token2 {
		t.Errorf("token file %q, %v; want %q", stored, err, token2)
	}
	if code := stopConsole(); code != 0 {
		t.Errorf("stevedore console ended with %d", code)
	}

	b, err := bus.Connect(t.Context(), bus.Config{Server: line["url"], Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	stream, err := b.Stream(t.Context(), bus.Dead)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.DenyPurge = true
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, page+"api/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(bearer[0], bearer[1])
	resp, err := http.DefaultClient.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), status.StreamSealed) || !strings.Contains(string(body), "stevedore backup") {
		t.Errorf("the page does not name a stream that denies purges, with what to do, as stevedore status does: %v, %s", err, body)
	}
	if code := stop(); code != 0 {
		t.Errorf("stevedore up ended with %d", code)
	}
	again, _ := firstLine(t, up...)
	if _, kept, _ := strings.Cut(again["console"], "?token="); kept != token {
		t.Error("stevedore up has another token after a restart")
	}
}

func TestConsoleFlags(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	bad := filepath.Join(data, "bad")
	if err := os.WriteFile(bad, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--console", "nonsense"}, {"--console", "127.0.0.1:99999"}, {"--console", "0.0.0.0:0"}, {"--console", "127.0.0.1:0", "--console-token-file", bad}} {
		var stderr strings.Builder
		code := run(t.Context(), append([]string{"up", "--data", filepath.Join(data, "d"), "--listen", "127.0.0.1:0", "--no-sync", "--workspace", data}, args...), strings.NewReader(""), io.Discard, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), "--console") || strings.Contains(stderr.String(), "short") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr.String())
		}
	}
	line, _ := firstLine(t, "up", "--json", "--data", filepath.Join(data, "d"), "--listen", "127.0.0.1:0", "--console", "off", "--no-sync", "--workspace", data, "--log-level", "error")
	if _, ok := line["console"]; ok || line["url"] == "" {
		t.Errorf("with --console off: %v", line)
	}
}
