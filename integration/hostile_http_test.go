//go:build linux

package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// endpoint is an HTTP endpoint of the real program.
type endpoint struct {
	host, token string
	process     *process
}

// send writes a request as it is, in its parts, and returns the answer.
func (e endpoint) send(t *testing.T, parts ...string) (status int, answer string) {
	t.Helper()
	c, err := net.Dial("tcp", e.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testTimeout)) // a TCP connection has deadlines
	go func() {
		for _, part := range parts {
			_, _ = io.Copy(c, struct{ io.Reader }{strings.NewReader(part)}) // a WriterTo would copy all of a large part
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Errorf("no answer to %.200q: %v", parts[0], err)
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, fmt.Sprintf("%v\n%s", resp.Header, body)
}

// ask sends a request with a valid token.
func (e endpoint) ask(t *testing.T, line, header, body string) (status int, answer string) {
	t.Helper()
	return e.send(t, line+" HTTP/1.1\r\nHost: "+e.host+"\r\nConnection: close\r\nAuthorization: Bearer "+e.token+"\r\n"+header+
		"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n", body)
}

// unharmed fails if the process ended, panicked, or needs much more memory than before.
func (e endpoint) unharmed(t *testing.T) {
	t.Helper()
	select {
	case <-e.process.exited:
		t.Fatalf("the process ended: %v\n%s", e.process.err, e.process.stderr)
	default:
	}
	if log := e.process.stderr.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") || strings.Contains(log, e.token) {
		t.Errorf("the log has a panic or the token: %s", log)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.process.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.Atoi(strings.Fields(peak)[0])
	if err != nil || kB > 400<<10 {
		t.Errorf("the process needed %d kB of memory: %v", kB, err)
	}
}

// refuses sends requests that every endpoint must refuse before it does anything.
func (e endpoint) refuses(t *testing.T, line, body string) {
	t.Helper()
	bearer := "Authorization: Bearer " + e.token + "\r\n"
	length := "Content-Type: application/json\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	host := "Host: " + e.host + "\r\n"
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"no token":           {host, 401},
		"an empty token":     {host + "Authorization: Bearer \r\n", 401},
		"a wrong token":      {host + "Authorization: Bearer " + e.token[1:] + "\r\n", 401},
		"a longer token":     {host + "Authorization: Bearer " + e.token + "x\r\n", 401},
		"the wrong scheme":   {host + "Authorization: Basic " + e.token + "\r\n", 401},
		"two tokens":         {host + bearer + bearer, 401},
		"the token as name":  {host + e.token + ": x\r\n", 401},
		"a forged cookie":    {host + "Cookie: stevedore_console=" + e.token + "; stevedore_console_" + e.host[strings.LastIndexByte(e.host, ':')+1:] + "=" + e.token + "\r\n", 401},
		"a foreign name":     {"Host: attacker.example.com\r\n" + bearer, 421},
		"a foreign name 2":   {"Host: 127.0.0.1.attacker.example.com\r\n" + bearer, 421},
		"a foreign address":  {"Host: 192.0.2.1\r\n" + bearer, 421},
		"a number as host":   {"Host: 2130706433\r\n" + bearer, 421},
		"an empty host":      {"Host: \r\n" + bearer, 421},
		"a host with a user": {"Host: 127.0.0.1@attacker.example.com\r\n" + bearer, 400},
		"two hosts":          {host + "Host: attacker.example.com\r\n" + bearer, 400},
		"a foreign origin":   {host + bearer + "Origin: https://attacker.example.com\r\n", 403},
		"an origin of null":  {host + bearer + "Origin: null\r\n", 403},
		"another port":       {host + bearer + "Origin: http://127.0.0.1:1\r\n", 403},
		"a long header":      {host + bearer + "X-Long: " + strings.Repeat("a", 64<<10) + "\r\n", 431},
		"many headers":       {host + bearer + strings.Repeat("X-Many: a\r\n", 10_000), 431},
		"a NUL in a header":  {host + bearer + "X-Zero: a\x00b\r\n", 400},
		"a line feed":        {host + bearer + "X-Line: a\rb\r\n", 400},
		"two lengths":        {host + bearer + "Content-Length: 5\r\n", 400},
		"a smuggled body":    {host + bearer + "Transfer-Encoding: chunked, identity\r\n", 501},
	} {
		status, answer := e.send(t, line+" HTTP/1.1\r\n"+c.request+length)
		if status != c.want || strings.Contains(answer, e.token) {
			t.Errorf("%s: status %d, want %d: %.300s", name, status, c.want, answer)
		}
	}
	if status, answer := e.send(t, line+"?token="+e.token[1:]+" HTTP/1.1\r\n"+host+length); status != 401 || strings.Contains(answer, e.token[1:]) {
		t.Errorf("a wrong token in the query: status %d: %.300s", status, answer)
	}
}

// hostileTexts are ids, names and patterns.
var hostileTexts = []string{
	"..", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e", "a.b", "*", ">", "$JS.API.STREAM.LIST", "_INBOX.x", "a b", "\t", "%00", "%0d%0aX-Injected:%20yes", "%1b[2J",
	"%ff%fe", "%c0%ae%c0%ae", "%e2%80%aeevil", "%ef%bc%8e", strings.Repeat("a", 5000), "18446744073709551616", "-1", "1e308", "NaN", "0x1", "'%22<script>", "%25s%25n", "{}", "[]",
}

func TestHostileRequestsToThePage(t *testing.T) {
	t.Parallel()
	u := startUp(t, "--log-level", "debug")
	if answer := connect(t, u.url).request("call.default.shell", `{"session":"victim","id":"v1","args":{"command":"seq 1 60000 | sed s/^/victims-data-/"}}`); !strings.Contains(answer.text("for_llm"), "victims-data") {
		t.Fatalf("the victim has no result: %v", answer)
	}
	p := pageOf(t, u.process)
	e := endpoint{p.host, p.token, u.process}
	if status, answer := e.ask(t, "GET /api/state", "", ""); status != 200 {
		t.Fatalf("the page: %d %s", status, answer)
	}
	e.refuses(t, "GET /api/state", "")
	e.refuses(t, "POST /api/calls/s/c/cancel", "{}")
	e.refuses(t, "GET /api/events", "")

	check := func(line string, status int, answer string) {
		t.Helper()
		header, _, _ := strings.Cut(answer, "\n")
		switch {
		case status >= 500 && status != 504, status == 0:
			t.Errorf("%.200q: status %d: %.300s", line, status, answer)
		case strings.Contains(header, "X-Injected"), strings.Contains(answer, "root:x:"), strings.ContainsAny(answer, "\x00\x1b\u202e"):
			t.Errorf("%.200q: the answer has what the request injected: %.300q", line, answer)
		case strings.Contains(answer, "victims-data"):
			t.Errorf("%.200q: the answer has data of another session: %.300q", line, answer)
		}
	}
	for _, text := range hostileTexts {
		text = strings.NewReplacer(" ", "%20", "\t", "%09").Replace(text)
		for _, path := range []string{
			"GET /static/" + text, "GET /api/sessions/" + text, "GET /api/sessions?before=" + text, "GET /api/calls?limit=" + text, "GET /api/calls?session=" + text,
			"GET /api/calls/" + text + "/" + text, "GET /api/dead/" + text, "POST /api/dead/" + text, "POST /api/sessions/" + text + "/remove", "POST /api/schedules/" + text + "/enable", "POST /api/channels/" + text + "/test",
			"GET /api/artifacts/" + text, "GET /api/artifacts/attacker/" + text + "/lines?start_line=" + text, "GET /api/artifacts/attacker/" + text + "/content",
			"GET /api/artifacts/attacker/" + text + "/content?expires=9999999999&signature=" + text,
		} {
			status, answer := e.ask(t, path, "", "")
			check(path, status, answer)
		}
	}
	long := `{"prompt":"` + strings.Repeat("x", 2<<20) + `"}`
	for name, c := range map[string]struct {
		line, kind, body string
		want             int
	}{
		"a form":            {"POST /api/sessions/s/messages", "application/x-www-form-urlencoded", "prompt=x", 415},
		"plain text":        {"POST /api/sessions/s/messages", "text/plain", `{"prompt":"x"}`, 415},
		"no JSON":           {"POST /api/sessions/s/messages", "application/json", "\x00\xff", 400},
		"an array":          {"POST /api/sessions/s/messages", "application/json", `["x"]`, 400},
		"invalid UTF-8":     {"POST /api/sessions/s/messages", "application/json", "{\"prompt\":\"\xff\"}", 400},
		"trailing data":     {"POST /api/sessions/s/messages", "application/json", `{"prompt":"x"}{}`, 400},
		"a number":          {"POST /api/sessions/s/messages", "application/json", `{"prompt":1e99999}`, 400},
		"depth":             {"POST /api/sessions/s/messages", "application/json", `{"prompt":` + strings.Repeat("[", 500_000), 400},
		"size":              {"POST /api/sessions/s/messages", "application/json", long, 400},
		"a field twice":     {"POST /api/approvals/s/c", "application/json", `{"approve":false,"approve":true}`, 400},
		"in another case":   {"POST /api/approvals/s/c", "application/json", `{"approve":false,"APPROVE":true}`, 400},
		"an approval of 1":  {"POST /api/approvals/s/c", "application/json", `{"approve":1}`, 400},
		"an unknown method": {"BREW /api/state", "application/json", "", 405},
	} {
		status, answer := e.ask(t, c.line, "Content-Type: "+c.kind+"\r\n", c.body)
		if check(name, status, answer); status != c.want {
			t.Errorf("%s: status %d, want %d: %.300s", name, status, c.want, answer)
		}
	}
	if status, answer := e.ask(t, "GET /api/events", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: https://attacker.example.com\r\n", ""); status != 403 {
		t.Errorf("a websocket: %d %s", status, answer)
	}
	e.followTooOften(t)
	e.unharmed(t)
}

// followTooOften opens more streams of events than the page serves.
func (e endpoint) followTooOften(t *testing.T) {
	t.Helper()
	const viewers = 100
	statuses := map[int]int{}
	for range viewers {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+e.host+"/api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+e.token)
		resp, err := http.DefaultClient.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		statuses[resp.StatusCode]++
	}
	if statuses[200] != 64 || statuses[503] != viewers-64 {
		t.Errorf("%d streams of events: %v", viewers, statuses)
	}
}

func TestHostileRequestsToMCP(t *testing.T) {
	t.Parallel()
	// The worker that is wrapped returns big results as they are.
	u, whole := startUp(t), startUp(t, "--offload-threshold", "10000000")
	big := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"seq 1 20000 | sed s/^/victims-data-/"}}}`
	for name, args := range map[string][]string{
		"gateway": {"mcp", "--data", u.data},
		"wrap":    {"mcp", "wrap", "--data", t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args = append(args, "--http", "127.0.0.1:0", "--log-level", "debug")
			for _, who := range []string{"alice", "bob"} {
				file := filepath.Join(dir, who)
				if err := os.WriteFile(file, []byte(who+"-0123456789abcdef"), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--token", who+"=file:"+file)
			}
			if name == "wrap" {
				args = append(args, "--", workerProgram, "mcp", "--data", whole.data)
			}
			process, err := launchCommand(exec.Command("sh", append([]string{"-c", `echo starting; exec "$0" "$@"`, workerProgram}, args...)...))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(process.kill)
			await(t, process, "its URL", func() bool { return mcpURL.MatchString(process.stderr.String()) })
			host := strings.TrimSuffix(strings.TrimPrefix(mcpURL.FindString(process.stderr.String()), "http://"), "/mcp")
			bob := endpoint{host, "bob-0123456789abcdef", process}
			alice := endpoint{host, "alice-0123456789abcdef", process}
			read := `"get_knowledge_by_id","arguments":{"artifact_id"`
			if name == "wrap" {
				read = `"read_result","arguments":{"id"`
			}
			attackMCP(t, alice, bob, big, read)
		})
	}
}

const (
	initializeMCP = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	mcpHeader     = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-06-18\r\n"
)

// tooLarge returns a message of 65 MB, which is made once.
var tooLarge = sync.OnceValue(func() string {
	return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 65<<20) + `"}}`
})

// session initializes a session and returns the headers of its requests.
func (e endpoint) session(t *testing.T) (header string) {
	t.Helper()
	status, answer := e.ask(t, "POST /mcp", mcpHeader, initializeMCP)
	_, id, ok := strings.Cut(answer, "Mcp-Session-Id:[")
	if id, _, _ = strings.Cut(id, "]"); status != 200 || !ok {
		t.Fatalf("initialize: %d %s", status, answer)
	}
	header = mcpHeader + "Mcp-Session-Id: " + id + "\r\n"
	e.ask(t, "POST /mcp", header, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return header
}

// attackMCP lets bob reach for a result of alice. big makes it; reader is the name of the tool
// that reads it and the start of the tool's arguments.
func attackMCP(t *testing.T, alice, bob endpoint, big, reader string) {
	bob.refuses(t, "POST /mcp", initializeMCP)
	hers := alice.session(t)
	status, stored := alice.ask(t, "POST /mcp", hers, big)
	_, reference, _ := strings.Cut(stored, "stevedore://alice/artifacts/")
	if reference, _, _ = strings.Cut(reference, `"`); status != 200 || reference == "" || len(reference) > 100 {
		t.Fatalf("the call of alice: %d %.500s", status, stored)
	}
	read := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":` + reader + `:"` + reference + `"}}}`
	if status, answer := alice.ask(t, "POST /mcp", hers, read); status != 200 || !strings.Contains(answer, "victims-data") {
		t.Fatalf("alice cannot read her artifact: %d %.500s", status, answer)
	}
	his := bob.session(t)
	for name, c := range map[string]struct{ header, body string }{
		"read":                     {his, read},
		"read in her session":      {hers, read},
		"name her session":         {his + "Stevedore-Session: alice\r\n", read},
		"leave the own session":    {his + "Stevedore-Session: ../alice\r\n", read},
		"end a token":              {his + "Stevedore-Session: --alice\r\n", read},
		"forge the key":            {his + "Stevedore-Request-Key: alice\r\n", read},
		"list":                     {his, `{"jsonrpc":"2.0","id":3,"method":"resources/list"}`},
		"read the link":            {his, `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"stevedore://alice/artifacts/` + reference + `"}}`},
		"read the link with steps": {his, `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"stevedore://bob/artifacts/../../alice/artifacts/` + reference + `"}}`},
	} {
		if status, answer := bob.ask(t, "POST /mcp", c.header, c.body); status >= 500 || strings.Contains(answer, "victims-data") {
			t.Errorf("%s: bob gets data of alice: %d %.500s", name, status, answer)
		}
	}
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"read_file","arguments":` + arguments + `}}`
	}
	bodies := map[string]string{
		"nothing": "", "no JSON": "\x00\xff{", "a number": "1", "null": "null", "an empty batch": "[]", "a batch": "[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 5000) + "1]",
		"depth": strings.Repeat("[", 500_000), "deep arguments": call(deep), "deep _meta": `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":` + deep + `}}`,
		"a huge id": `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 100_000) + `,"method":"ping"}`, "an object as id": `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		"a real id": `{"jsonrpc":"2.0","id":1e999,"method":"ping"}`, "two methods": `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`,
		"a method with controls": `{"jsonrpc":"2.0","id":1,"method":"a\u0000\u001b[2J\r\nX-Injected: yes"}`, "a long method": `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 1<<20) + `"}`,
		"invalid UTF-8": "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\xfe\"}}", "a lone surrogate": call(`{"path":"\ud800"}`),
		"a path outside": call(`{"path":"../../../../etc/passwd"}`), "an absolute path": call(`{"path":"/etc/passwd"}`), "a NUL": call(`{"path":"note.txt\u0000/../x"}`),
		"no name": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, "params of another kind": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}`,
		"a pattern": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"grep_knowledge","arguments":{"artifact_id":"x","pattern":"((((a?){30}){30}){30}){30}b"}}}`,
		"a grep":    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + reader + `:"x","grep":"((((a?){30}){30}){30}){30}b"}}}`,
		"an answer": `{"jsonrpc":"2.0","id":1,"result":{}}`, "an error": `{"jsonrpc":"2.0","id":"x","error":{"code":1e400,"message":"x"}}`,
		"a cancellation of another": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}`,
		"progress":                  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"http-1","progress":1e400}}`,
		"too large":                 tooLarge(),
	}
	for name, body := range bodies {
		headers := []string{his, strings.ReplaceAll(his, "2025-06-18", "2026-07-28")}
		if len(body) > 10<<20 {
			headers = headers[:1] // the size is limited before the version counts
		}
		for _, header := range headers {
			status, answer := bob.ask(t, "POST /mcp", header, body)
			head, _, _ := strings.Cut(answer, "\n")
			if status == 0 || status >= 500 || strings.Contains(head, "X-Injected") || strings.Contains(answer, "root:x:") || strings.Contains(answer, "\x1b") {
				t.Errorf("%s: %d %.500q", name, status, answer)
			}
		}
	}
	for _, header := range []string{"Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n", "Content-Type: \xff\r\n"} {
		if status, answer := bob.ask(t, "POST /mcp", header, initializeMCP); status < 400 || status >= 500 {
			t.Errorf("%q: %d %.300s", header, status, answer)
		}
	}
	for _, line := range []string{"PUT /mcp", "BREW /mcp", "GET /mcp/../etc/passwd", "GET /mcp%00", "GET /debug/pprof/", "GET /metrics", "GET /", "POST /mcp/x"} {
		if status, answer := bob.ask(t, line, "", ""); status < 300 || status >= 500 {
			t.Errorf("%s: %d %.300s", line, status, answer)
		}
	}
	for _, header := range []string{"Mcp-Session-Id: " + strings.Repeat("x", 20_000) + "\r\n", "Mcp-Session-Id: ../../x\r\n", "Mcp-Protocol-Version: 9999-99-99\r\n", "Last-Event-Id: -1\r\n"} {
		for _, method := range []string{"POST", "DELETE"} {
			if status, answer := bob.ask(t, method+" /mcp", "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+header, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); status == 0 || status >= 500 {
				t.Errorf("%s with %.60q: %d %.300s", method, header, status, answer)
			}
		}
	}
	bob.floodSlowly(t)
	if status, answer := alice.ask(t, "POST /mcp", hers, `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`); status != 200 || !strings.Contains(answer, "read_file") {
		t.Errorf("alice after the attack: %d %.300s", status, answer)
	}
	bob.unharmed(t)
}

// floodSlowly keeps many connections open that never complete a request.
func (e endpoint) floodSlowly(t *testing.T) {
	t.Helper()
	for i := range 300 {
		c, err := net.Dial("tcp", e.host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		request := "POST /mcp HTTP/1.1\r\nHost: " + e.host + "\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
		if i%2 == 0 {
			request += "Authorization: Bearer " + e.token + "\r\n\r\n{"
		}
		_, _ = io.WriteString(c, request) // the server may have closed it
	}
}
