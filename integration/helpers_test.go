package integration

import (
	"bufio"
	"cmp"
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

// A call that is aborted before it is stored is cancelled when it is: by the helper for JavaScript, with a connection that a
// package of the test makes.
func TestAbortedBeforeTheCallIsStored(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	dir := t.TempDir()
	helper, err := os.ReadFile(filepath.Join("node", "stevedore.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"stevedore.mjs": string(helper),
		"node_modules/@nats-io/transport-node/package.json": `{"type":"module","exports":"./index.js"}`,
		"node_modules/@nats-io/transport-node/index.js": `
			let ends, tries = 0;
			const answer = (code, body) => ({ data: [1], json: () => body, headers: { get: () => code } });
			export const headers = () => {};
			export const connect = async () => ({ info: {}, isClosed: () => false, async *status() {}, async request(subject) {
				if (subject.startsWith("stevedore.rpc.call.")) return new Promise((done) => { ends = done; });
				if (++tries === 1) return answer("not_found", { error: { message: "no such call" } });
				ends(answer("", { outcome: "cancelled" }));
				return answer("", {});
			} });`,
		"abort.mjs": `
			import { connect } from "./stevedore.mjs";
			const abort = new AbortController();
			const call = (await connect()).call("shell", {}, { signal: abort.signal });
			abort.abort();
			console.log((await call).outcome);`,
	} {
		path := filepath.Join(dir, name)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), node, filepath.Join(dir, "abort.mjs")).CombinedOutput(); err != nil || string(out) != "cancelled\n" {
		t.Errorf("%v: %s", err, out)
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
