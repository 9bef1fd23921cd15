package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// hostShell is a host with an adapter for the output of its shell.
type hostShell struct {
	host  realHost
	shell string // the tool
}

var hostShells = []hostShell{
	{realHosts[0], "Bash"}, {realHosts[1], "exec_command"}, {realHosts[2], "run_shell_command"}, {realHosts[3], "bash"},
	{realHost{"pi", "pi", []string{"-p", "--provider", "scripted", "--model", "m", "run it"}, ".pi/agent/models.json",
		`{"providers": {"scripted": {"baseUrl": "$URL", "api": "anthropic-messages", "apiKey": "x", "models": [{"id": "m"}]}}}`, 0, false}, "bash"},
}

// args are the arguments of the host, which trusts the hooks.
func (h hostShell) args() []string {
	if h.host.name == "codex" {
		return slices.Insert(slices.Clone(h.host.args), 1, "--dangerously-bypass-hook-trust")
	}
	return h.host.args
}

// The adapters shorten a long output of a command that fails, and leave everything else as it is.
// Without a program that works, the host works as without them.
func TestShellsOfRealHosts(t *testing.T) {
	packages := os.Getenv("STEVEDORE_HOSTS")
	if packages == "" {
		t.Skip("make hosts installs the hosts and runs this test")
	}
	for _, h := range hostShells {
		t.Run(h.host.name, func(t *testing.T) {
			args := h.args()
			if _, err := os.Stat(filepath.Join(packages, ".bin", h.host.program)); err != nil {
				t.Skip(err)
			}
			s := h.host.session(t, packages)
			s.model.shell = h.shell
			result := func(command string) (size int, body string) {
				t.Helper()
				s.model.command = command
				s.run(s.program, args...)
				all := s.model.take()
				if len(all) < 2 {
					t.Fatalf("%d requests", len(all))
				}
				return all[1].bytes - all[0].bytes, all[1].body
			}
			const long, short = "seq 100001 130000; exit 3", "seq 1 500"
			native, _ := result(long)
			nativeShort, _ := result(short)
			program := filepath.Join(s.bin, "stevedore")
			link := func() {
				t.Helper()
				if err := errors.Join(os.MkdirAll(s.bin, 0o700), os.Symlink(workerProgram, program)); err != nil {
					t.Fatal(err)
				}
			}
			link()
			s.run(workerProgram, "mcp", "install", h.host.name)
			if h.host.name != "pi" { // without the program, a host may not start
				s.run(workerProgram, "mcp", "uninstall", h.host.name, "files")
			}
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			missing, _ := result(long)
			link()
			with, body := result(long)
			withShort, _ := result(short)
			if success, body := result("seq 100001 130000"); success > 1200 || !strings.Contains(body, "130000") {
				t.Errorf("a command that succeeds: %d bytes", success)
			}
			t.Logf("bytes of a long result: %d without, %d with the adapter, %d without the program; of a short one: %d and %d", native, with, missing, nativeShort, withShort)
			if with > 1200 || !strings.Contains(body, "130000") || missing < native-200 || missing > native+200 || withShort > nativeShort+150 || withShort < nativeShort-150 {
				t.Errorf("the long result is\n%s", body[max(0, len(body)-3000):])
			}
			id := regexp.MustCompile(`read (run_[\w-]+)`).FindStringSubmatch(body)
			if id == nil {
				t.Fatal("no id in the result")
			}
			s.run(workerProgram, "mcp", "uninstall", h.host.name)
			if after, _ := result(long); after < native-200 || after > native+200 {
				t.Errorf("a long result has %d bytes after uninstall, %d before", after, native)
			}
			if out, err := s.try(workerProgram, "read", id[1], "--grep", "^115000$"); err != nil || !strings.Contains(string(out), "115000") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// What all requests of a session of 20 turns cost, with one output of each size in the first turn,
// in bytes: the second table of docs/mcp.md. See TestCostsInHosts.
func TestShellCostsInHosts(t *testing.T) {
	packages, selected := os.Getenv("STEVEDORE_HOSTS"), os.Getenv("STEVEDORE_HOST_COSTS")
	if packages == "" || selected == "" {
		t.Skip("make host-costs installs the hosts and runs this test")
	}
	for _, h := range hostShells {
		if _, err := os.Stat(filepath.Join(packages, ".bin", h.host.program)); err != nil || !regexp.MustCompile(selected).MatchString(h.host.name) {
			continue
		}
		t.Run(h.host.name, func(t *testing.T) {
			args := h.args()
			s := h.host.session(t, packages)
			s.model.shell, s.model.turns, s.model.command = h.shell, 20, "cat "+s.log
			cost := func() (total int) {
				t.Helper()
				s.run(s.program, args...)
				all := s.model.take()
				for _, r := range all {
					total += r.bytes
				}
				if len(all) != s.model.turns {
					t.Errorf("%d requests", len(all))
				}
				return total
			}
			for _, size := range []int{100, 5_000, 12_000, 30_000, 120_000, 1_300_000, 11_000_000} {
				writeAll(t, s.log, strings.Repeat("a line of the log, with some words\n", size/35+1))
				native := cost()
				s.run(workerProgram, "mcp", "install", h.host.name)
				with := cost()
				s.run(workerProgram, "mcp", "uninstall", h.host.name)
				t.Logf("an output of %d bytes: %d without, %d with: %+d", size, native, with, with-native)
			}
		})
	}
}

// The adapters without the hosts: node runs those in JavaScript, and sh the commands of the others.
func TestAdaptersOfShells(t *testing.T) {
	slow.Test(t)
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	t.Parallel()
	home := t.TempDir()
	run := func(bin, stdin, name string, args ...string) string {
		t.Helper()
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(cleanEnvironment(), "HOME="+home, "XDG_DATA_HOME=", "CODEX_HOME=", "PATH="+bin+":/usr/bin:/bin")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s %v: %v", name, args, err)
		}
		return string(out)
	}
	works, broken := filepath.Join(home, "works"), filepath.Join(home, "broken")
	writeAll(t, filepath.Join(works, "stevedore"), "#!/bin/sh\nexec '"+workerProgram+"' \"$@\"\n")
	writeAll(t, filepath.Join(broken, "stevedore"), "#!/bin/sh\necho panic >&2\nexit 2\n") // a host may take 2 for a no
	for _, bin := range []string{works, broken} {
		if err := os.Chmod(filepath.Join(bin, "stevedore"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("a line of output\n", 1000)
	whole := filepath.Join(home, "pi-bash-0123456789abcdef.log")
	writeAll(t, whole, long)
	for _, script := range []string{
		// As opencode 1.18 and Pi 0.73 call them.
		`import { Stevedore } from "HOSTS/opencode/stevedore.js";
		const after = (await Stevedore())["tool.execute.after"], output = { title: "x", output: OUTPUT, metadata: {} };
		await after({ tool: TOOL, args: { command: "make" } }, output);
		console.log(output.output);`,
		`import { Stevedore } from "HOSTS/opencode/stevedore.js";
		const after = (await Stevedore())["tool.execute.after"], output = { output: OUTPUT.slice(0, 100) + "\n\n<shell_metadata>\ntimeout\n</shell_metadata>", metadata: { truncated: true, outputPath: "WHOLE" } };
		await after({ tool: TOOL, args: { command: "make" } }, output);
		if (!output.output.endsWith("\n<shell_metadata>\ntimeout\n</shell_metadata>")) throw new Error("no status");
		console.log(output.output);`,
		`import extension from "HOSTS/pi/stevedore.js";
		let handler; extension({ on: (event, f) => { if (event === "tool_result") handler = f; } });
		const content = [{ type: "text", text: OUTPUT.slice(0, 100) + "\n\n[Showing lines 1-2 of 9. Full output: WHOLE]\n\nCommand exited with code 7" }];
		const answer = await handler({ toolName: TOOL, input: { command: "make" }, content, isError: true });
		console.log((answer ?? { content }).content[0].text);
		if (answer && !answer.content[0].text.endsWith("\nCommand exited with code 7")) throw new Error("no exit code");`,
		`import extension from "HOSTS/pi/stevedore.js";
		let handler; extension({ on: (event, f) => { if (event === "tool_result") handler = f; } });
		const content = [{ type: "text", text: OUTPUT.slice(0, -17) + "Full output: /a]\n" }]; // not of Pi
		const answer = await handler({ toolName: TOOL, input: { command: "make" }, content });
		console.log((answer ?? { content }).content[0].text);`,
	} {
		for _, c := range []struct {
			bin, tool string
			short     bool
		}{{works, "bash", true}, {works, "read", false}, {broken, "bash", false}, {home, "bash", false}} {
			hosts, err := filepath.Abs("hosts")
			if err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("HOSTS", hosts, "OUTPUT", fmt.Sprintf("%q", long), "TOOL", fmt.Sprintf("%q", c.tool), "WHOLE", whole).Replace(script)
			got := run(c.bin, text, "node", "--input-type=module", "-")
			if strings.Contains(got, "1000 lines, 17000 bytes are stored") != c.short || !strings.HasPrefix(got, "a line of output\n") {
				t.Errorf("%s, %s in %s: %.300s", script, c.tool, c.bin, got)
			}
		}
	}
	for file, event := range map[string]string{
		"claude-code/hooks/hooks.json": fmt.Sprintf(`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_response":{"stdout":%q}}`, long),
		"gemini-cli/hooks/hooks.json":  fmt.Sprintf(`{"hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"make"},"tool_response":{"llmContent":%q,"returnDisplay":""}}`, long),
		"codex/hooks.json":             `{"hook_event_name":"PreToolUse","cwd":"/","tool_name":"Bash","tool_input":{"command":"make"}}`,
	} {
		text, err := os.ReadFile(filepath.Join("hosts", file))
		var config struct {
			Hooks map[string][]struct{ Hooks []struct{ Command string } }
		}
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for name, groups := range config.Hooks {
			command := groups[0].Hooks[0].Command
			if !strings.Contains(event, name) {
				continue
			}
			if got := run(works, event, "sh", "-c", command); !strings.HasPrefix(got, "{") {
				t.Errorf("%s: %s answers %s", file, command, got)
			}
			if got := run(broken, event, "sh", "-c", command); strings.Contains(got, "{") {
				t.Errorf("%s: %s answers %s", file, command, got)
			}
		}
	}
}
