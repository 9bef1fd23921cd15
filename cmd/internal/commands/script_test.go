package commands

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/clitest"
)

// playRole, if not nil, does what a process of a test is for.
var playRole func() bool

func TestMain(m *testing.M) {
	if playRole != nil && playRole() {
		return
	}
	ats.Register() // the server's clock, outside of all bubbles
	// Scripts mostly wait for other processes, so run more of them than there are CPUs.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"stevedore": Main})
}

// TestScripts runs the scripts in testdata, in parallel, with this test binary as stevedore.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		// Each script has its own data directory and port.
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("DATA", filepath.Join(env.WorkDir, "xdg", "stevedore"))
			env.Setenv("STEVEDORE_LISTEN", "127.0.0.1:0")
			env.Setenv("STEVEDORE_NO_SYNC", "true") // no script cuts the power
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      clitest.Exits,
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

// eventually is the script command "eventually REGEXP PROGRAM ARGS...": it runs the program
// until its output matches, for what a worker does after it has published a result.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP PROGRAM ARGS...")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(bustest.Timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := ts.Exec(args[1], args[2:]...); want.MatchString(ts.ReadFile("stdout")) {
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("timeout: no output matches %s", args[0])
}

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
