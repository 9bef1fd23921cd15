package commands

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// The doctor names all settings with which a worker would not start, and up refuses each before it starts the server.
func TestDoctorChecksAllSettings(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	short := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(short, []byte("heartbeat-every: 1m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(command string, flags ...string) (code int, stdout, stderr string) {
		var out, err strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), bustest.Timeout) // a worker that starts
		defer cancel()
		code = run(ctx, append([]string{command, "--workspace", t.TempDir(), "--data", data}, flags...), strings.NewReader(""), &out, &err)
		return code, out.String(), err.String()
	}
	invalid := [][]string{
		{"--mcp", "bad"}, {"--web-allow", "zzz"}, {"--web-search", "nope"}, {"--channel", "foo"}, {"--store", "foo:bar"}, {"--remote-tool", "y"},
		{"--receive", "x"}, {"--receive", "console"}, {"--receive", "b", "--channel", "b=bridge:allow=*"}, {"--transcribe", "x"}, {"--channel", "log=nope:x"}, {"--default-channel", "last"},
		{"--mcp-sandbox", "--shell-sandbox", "off"}, {"--config", short},
		{"--heartbeat-every", "0", "--heartbeat-allow-short"}, {"--heartbeat-timeout", "0"},
	}
	for _, flags := range invalid {
		flag := flags[0]
		switch flag {
		case "--config":
			flag = "--heartbeat-every"
		case "--default-channel":
			flag = `channel "last"`
		}
		if code, out, err := do("doctor", flags...); code == 0 || strings.Count(out+err, flag) != 1 {
			t.Errorf("doctor %s: exit code %d, %s%s", flags, code, out, err)
		}
		if code, _, err := do("up", append(flags, "--listen", "127.0.0.1:0")...); code != 2 || !strings.Contains(err, flag) {
			t.Errorf("up %s: exit code %d, %s", flags, code, err)
		}
	}
	if code, out, _ := do("doctor", "--mcp", "bad", "--web-allow", "zzz", "--store", "foo:bar"); code != 1 || !strings.Contains(out, "--mcp") ||
		!strings.Contains(out, "--web-allow") || !strings.Contains(out, "--store") {
		t.Errorf("several invalid settings: exit code %d, %s", code, out)
	}
	secrets := []string{"--channel", "tg=telegram:chat=1,token=env:STEVEDORE_TEST_NOT_SET", "--receive", "tg", "--default-channel", "tg",
		"--web-search", "brave=env:STEVEDORE_TEST_NOT_SET", "--transcribe", "https://example.com/v1", "--transcribe-key", "file:/not/there"}
	if code, out, _ := do("doctor", secrets...); code != 0 || !strings.Contains(out, "are valid") { // the service has them, not this shell
		t.Errorf("secrets of the service: exit code %d, %s", code, out)
	}
	if code, _, err := do("demo", "--mcp", "bad"); code != 2 {
		t.Errorf("demo: exit code %d, %s", code, err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("a server was started")
	}
}

// What /readyz does not mind is a warning: calls go on without a permission of housekeeping.
func TestDoctorAgreesWithReadyz(t *testing.T) {
	for denied, want := range map[string]string{"publish $JS.API.STREAM.PURGE.STEVEDORE_CALLS": "warning", "publish stevedore.result.>": "failed"} {
		var d doctor
		if d.report(status.Problem{Code: string(trouble.Permission), Name: denied}); d.findings[0].Status != want {
			t.Errorf("%s: %+v, want %s", denied, d.findings, want)
		}
	}
}
