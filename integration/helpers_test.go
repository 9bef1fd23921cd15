package integration

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// language is a language that integration has a helper for.
type language struct {
	dir     string
	command []string
}

// nodeJS and python return their language, or skip the test if it is not installed.
func nodeJS(t *testing.T) language {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	for _, folder := range []string{"@nats-io", "@anthropic-ai", "openai", "typescript"} {
		if _, err := os.Stat(filepath.Join("node", "node_modules", folder)); err != nil {
			t.Skipf("the package %s is not installed: run npm ci in integration/node", folder)
		}
	}
	return language{"node", []string{program}}
}

func python(t *testing.T) language {
	t.Helper()
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	return language{"python", []string{program, "-B"}} // writes no __pycache__
}

// program runs a file of the language's folder with arguments, with the URL and the credential in separate
// variables, and returns what it printed. It calls printed for each line.
func (l language) program(t *testing.T, args []string, u *url.URL, printed func(line string), env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), l.command[0], append(l.command[1:], args...)...)
	cmd.Dir = l.dir
	password, _ := u.User.Password()
	cmd.Env = append(cleanEnvironment(), "NATS_URL=nats://"+u.Host, "NATS_USER="+u.User.Username(), "NATS_PASSWORD="+password)
	cmd.Env = append(cmd.Env, env...)
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if printed != nil {
			printed(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s%s", args[0], err, all.String(), stderr.String())
	}
	return all.String()
}

func parseURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// limitedServer starts a NATS server whose user "limited" may only receive answers, and whose user
// "worker" may do everything. It returns its URL.
func limitedServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, Users: []*server.User{{
		Username: "limited", Password: "limited",
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"other"}}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}},
	}, {Username: "worker", Password: "worker"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.ClientURL()
}

// The helper for Python does not take for stored, or for missing, what the server did not answer.
func TestPythonWithoutAnswers(t *testing.T) {
	t.Parallel()
	if out := python(t).program(t, []string{"unanswered.py"}, parseURL(t, "nats://u:p@unused"), nil); out != "ok\n" { // it connects to none
		t.Error(out)
	}
}

// The helpers in node/stevedore.mjs and python/stevedore_bus.py do what their users expect, also
// if the connection is lost while a call runs.
func TestHelpers(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		language func(*testing.T) language
		file     string
		steps    int
	}{"node": {nodeJS, "helper.mjs", 8}, "python": {python, "helper.py", 9}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := tt.language(t)
			script := filepath.Join(t.TempDir(), "script.jsonl")
			if err := os.WriteFile(script, []byte(`{"text":"hi there", "delay":"1s"}`+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			up := startUp(t, "--model", "script:"+script, "--remote-tool", "shout=acme.shout", "--console", "off")
			u := parseURL(t, up.url)
			link := newClientLink(t, u.Host)
			u.Host = strings.TrimPrefix(link.urls, "nats://")
			cuts := 0
			out := l.program(t, []string{tt.file}, u, func(line string) {
				if line == "cut" {
					cuts++
					link.cut()
				}
			}, "LIMITED_URL="+limitedServer(t))
			if got := strings.Count(out, "ok: "); got != tt.steps || cuts != 2 || t.Failed() {
				t.Errorf("%d of %d steps, %d cuts\n%s\nthe worker said:\n%s", got, tt.steps, cuts, out, up.stderr)
			}
		})
	}
}
