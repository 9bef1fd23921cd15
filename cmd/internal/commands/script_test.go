package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/clitest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// playRole, if not nil, does what a process of a test is for.
var playRole func() bool

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		if os.Getenv(reusedEnv) != "" {
			runCommands()
			return
		}
		Main()
	}
	if playRole != nil && playRole() {
		return
	}
	ats.Register() // the server's clock, outside of all bubbles
	os.Exit(runWithProgram(m))
}

// program is this test binary under the name of the program, which the tests find in PATH.
var program = map[bool]string{true: "stevedore.exe", false: "stevedore"}[runtime.GOOS == "windows"]

func runWithProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stevedore-commands-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err == nil && os.Link(self, filepath.Join(dir, program)) != nil { // on another file system
		err = exec.Command("cp", self, filepath.Join(dir, program)).Run()
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		panic(err)
	}
	defer endReused()
	return slow.RunWaiting(m)
}

// TestScripts runs the scripts in testdata, in parallel, with this test binary as stevedore. "exec stevedore"
// starts a process; "stevedore" alone runs a command in a process that has run others.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			if name != "slow" {
				return false, fmt.Errorf("no condition is called %q", name)
			}
			return slow.Run(), nil
		},
		// Each script has its own data directory and port.
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("DATA", filepath.Join(env.WorkDir, "xdg", "stevedore"))
			env.Setenv("STEVEDORE_LISTEN", "127.0.0.1:0")
			env.Setenv("STEVEDORE_NO_SYNC", "true") // no script cuts the power
			script, err := os.ReadFile(filepath.Join("testdata", strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")+".txtar"))
			if err != nil {
				return err
			}
			shared := &scripted{}
			for _, kv := range slices.Concat(env.Vars, strings.Fields(strings.Join(setsVariables.FindAllString(string(script), -1), " "))) {
				name, _, _ := strings.Cut(kv, "=")
				shared.env = append(shared.env, name)
			}
			env.Values[scriptedKey{}] = shared
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"stevedore":  succeeds,
			"input":      input,
			"exits":      exits,
			"holds":      holds,
			"await":      await,
			"eventually": eventually,
			"mode":       mode,
			"isjson":     isJSON,
			"hook":       hook,
		},
	})
}

// await is the script command "await FILE [TEXT]": it waits until the file exists and
// contains the text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 && len(args) != 2 {
		ts.Fatalf("usage: await FILE [TEXT]")
	}
	for deadline := time.Now().Add(bustest.Timeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		content, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && (len(args) == 1 || strings.Contains(string(content), args[1])) {
			return
		}
	}
	ts.Fatalf("timeout: %s", strings.Join(args, " with "))
}

// eventually is the script command "eventually REGEXP stevedore ARGS...": it runs a
// command until its output matches, for what a worker does after it has published a result.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "stevedore" {
		ts.Fatalf("usage: eventually REGEXP stevedore ARGS...")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(bustest.Timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if code, out := runScripted(ts, args[2:]); want.Match(out) {
			if code != 0 {
				ts.Fatalf("exit status %d", code)
			}
			return
		}
	}
	ts.Fatalf("timeout: no output matches %s", args[0])
}

// succeeds is the script command "stevedore ARGS...".
func succeeds(ts *testscript.TestScript, neg bool, args []string) {
	if code, _ := runScripted(ts, args); (code != 0) != neg {
		ts.Fatalf("exit status %d", code)
	}
}

// input is the script command "input FILE": stdin for a command in a process that is reused.
func input(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: input FILE")
	}
	ts.Value(scriptedKey{}).(*scripted).stdin = []byte(ts.ReadFile(args[0]))
}

// exits is the script command "exits STATUS stevedore ARGS..." or "exits STATUS exec PROGRAM ARGS...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) > 2 && args[1] == "exec" {
		clitest.Exits(ts, neg, slices.Delete(args, 1, 2))
		return
	}
	if neg || len(args) < 2 || args[1] != "stevedore" {
		ts.Fatalf("usage: exits STATUS stevedore ARGS..., or exits STATUS exec PROGRAM ARGS...")
	}
	if code, _ := runScripted(ts, args[2:]); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}

// setsVariables is a line that sets variables.
var setsVariables = regexp.MustCompile(`(?m)^env .*`)

// mode is the script command "mode OCTAL FILE...": it compares the permissions.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode OCTAL FILE...")
	}
	for _, name := range args[1:] {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", name, got, args[0])
		}
	}
}

// isJSON is the script command "isjson FILE": each line is a JSON value, and the file is
// not empty.
func isJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: isjson FILE")
	}
	text := ts.ReadFile(args[0])
	if strings.TrimSpace(text) == "" {
		ts.Fatalf("%s is empty", args[0])
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			ts.Fatalf("%s: not JSON: %s", args[0], line)
		}
	}
}

// holds is the script command "holds FILE WANT": cmp for a FILE without a final newline,
// which all files in a script have.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: holds FILE WANT")
	}
	if got, want := ts.ReadFile(args[0]), ts.ReadFile(args[1]); got+"\n" != want {
		ts.Fatalf("%s holds %q, want %q without the final newline", args[0], got, want)
	}
}

// hook is the script command "hook STATUS FILE": it starts a web server at $HOOK that
// stores a posted body in FILE and answers with STATUS and the path, which holds a secret.
func hook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hook STATUS FILE")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	name := ts.MkAbs(args[1])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.WriteFile(name, body, 0o600)
		}
		if err != nil {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "no such hook: %s\n", r.URL.Path)
	}))
	ts.Defer(server.Close)
	ts.Setenv("HOOK", server.URL+"/secret-of-the-hook")
}
