package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// realHost is a coding host from npm, with a scripted model.
type realHost struct {
	name, program string
	args          []string // they end with the prompt
	config        string   // the path in the home directory
	text          string   // $URL is the model's endpoint, $FILES the command of the file server, $DIR its directory
	most          int      // bytes that the proxy may add to each request; Claude Code says how servers start
	reads         bool     // the model gets read_result with the first reference
}

var realHosts = []realHost{
	{"claude-code", "claude", []string{"-p", "read the log", "--allowedTools", "mcp__files,Bash", "--model", "claude-sonnet-4-5"}, ".claude.json",
		`{"mcpServers": {"files": {"command": "$FILES", "args": ["$DIR"]}}}`, 1000, false},
	{"codex", "codex", []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "read the log"}, ".codex/config.toml",
		"model_provider = \"scripted\"\nmodel = \"gpt-5-codex\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"$URL/v1\"\nwire_api = \"responses\"\n" +
			"[mcp_servers.files] # comment\ncommand = \"$FILES\"\nargs = [\"$DIR\"]\nrequired = true\n", 0, false},
	{"gemini-cli", "gemini", []string{"--skip-trust", "-y", "-m", "gemini-2.5-pro", "-p", "read the log"}, ".gemini/settings.json",
		`{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "mcpServers": {"files": {"command": "$FILES", "args": ["$DIR"], "trust": true}}}`, 0, false},
	{"opencode", "opencode", []string{"run", "read the log"}, ".config/opencode/opencode.jsonc",
		`{"$schema": "https://opencode.ai/config.json", "provider": {"scripted": {"npm": "@ai-sdk/anthropic", "options": {"baseURL": "$URL/v1", "apiKey": "x"}, "models": {"m": {"name": "m"}}}}, // comment
		"model": "scripted/m", "small_model": "scripted/m", "permission": {"*": "allow"}, "mcp": {"files": {"type": "local", "command": ["$FILES", "$DIR"]}}}`, 0, true},
}

// Real hosts start the servers that mcp install wrapped, and a model that reads a log of
// 1.3 MB gets a reference and a tool to read it. The figures are those of docs/mcp.md.
func TestRealHosts(t *testing.T) {
	packages := os.Getenv("STEVEDORE_HOSTS")
	if packages == "" {
		t.Skip("make hosts installs the hosts and runs this test")
	}
	for _, h := range realHosts {
		t.Run(h.name, func(t *testing.T) {
			s := h.session(t, packages)
			log, config, text, model, run := s.log, s.config, s.text, s.model, s.run
			writeAll(t, log, strings.Repeat("a line of the log, with some words\n", 40_000))
			run(s.program, h.args...)
			native := model.take()
			run(workerProgram, "mcp", "install", h.name)
			run(s.program, h.args...)
			wrapped := model.take()
			run(workerProgram, "mcp", "uninstall", h.name)
			if len(native) < 2 || len(wrapped) < 2 {
				t.Fatalf("%d requests without and %d with the proxy", len(native), len(wrapped))
			}

			n, w := native[len(native)-2:], wrapped[len(wrapped)-2:] // Claude Code first loads the tool
			first, second := wrapped[0].bytes-native[0].bytes, w[1].bytes-w[0].bytes
			t.Logf("bytes of the requests: %d and %d without the proxy, %d and %d with it", n[0].bytes, n[1].bytes, w[0].bytes, w[1].bytes)
			if first > h.most {
				t.Errorf("the proxy adds %d bytes to each request, want at most %d", first, h.most)
			}
			if second > 2500 || w[1].reads != h.reads {
				t.Errorf("the result has %d bytes; read_result is offered: %v", second, w[1].reads)
			}
			used, err := s.try(workerProgram, "usage", "--by", "host", "--json")
			if counted := regexp.MustCompile(`"host":"` + h.name + `[^"]*","tool":"read_text_file","results":1,"whole":1\d{6},"alone":\d{4,5},"shown":[678]\d\d,`); err != nil || !counted.Match(used) {
				t.Errorf("counted: %v, %s", err, used)
			}
			if got, err := os.ReadFile(config); err != nil || strings.Contains(string(got), `"wrap"`) || h.name != "claude-code" && string(got) != text { // which writes its own file, also which plugins it had
				t.Errorf("after uninstall, %v:\n%s", err, got)
			}
		})
	}
}

// hostSession is a home directory of a host with the file server in its configuration.
type hostSession struct {
	program, log, config, text string
	bin                        string // a directory of the PATH
	model                      *scriptedModel
	run                        func(program string, args ...string)
	try                        func(program string, args ...string) ([]byte, error)
}

func (h realHost) session(t *testing.T, packages string) hostSession {
	t.Helper()
	home := t.TempDir()
	project := filepath.Join(home, "project")
	s := hostSession{program: filepath.Join(packages, ".bin", h.program), log: filepath.Join(project, "big.txt"), config: filepath.Join(home, h.config), bin: filepath.Join(home, "bin")}
	s.model = &scriptedModel{path: s.log, small: filepath.Join(project, "small.txt")}
	endpoint := httptest.NewServer(s.model)
	t.Cleanup(endpoint.Close)
	s.text = strings.NewReplacer("$URL", endpoint.URL, "$FILES", filepath.Join(packages, ".bin", "mcp-server-filesystem"), "$DIR", project).Replace(h.text)
	writeAll(t, s.config, s.text)
	writeAll(t, s.model.small, "a short file\n")
	s.try = func(program string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = project
		cmd.WaitDelay = time.Second
		cmd.Env = append(cleanEnvironment(), "HOME="+home, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "ANTHROPIC_BASE_URL="+endpoint.URL, "ANTHROPIC_API_KEY=x",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL="+endpoint.URL, "PI_OFFLINE=1", "PATH="+s.bin+":"+pathWithoutProgram())
		return cmd.CombinedOutput()
	}
	s.run = func(program string, args ...string) {
		t.Helper()
		if out, err := s.try(program, args...); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	return s
}

// pathWithoutProgram is the PATH without the directories in which somebody has installed the program: a host that calls
// it would not find that it is missing.
func pathWithoutProgram() string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "stevedore"))
		return err == nil
	}), ":")
}

// What all requests of a session of 20 turns cost, with one result of each size in the first
// turn, in bytes: the table of docs/mcp.md. STEVEDORE_HOST_COSTS selects hosts by a regular
// expression.
func TestCostsInHosts(t *testing.T) {
	packages, selected := os.Getenv("STEVEDORE_HOSTS"), os.Getenv("STEVEDORE_HOST_COSTS")
	if packages == "" || selected == "" {
		t.Skip("make host-costs installs the hosts and runs this test")
	}
	for _, h := range realHosts {
		if !regexp.MustCompile(selected).MatchString(h.name) {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			s := h.session(t, packages)
			s.model.turns = 20
			cost := func() (total, requests int) {
				out, err := s.try(s.program, h.args...)
				all := s.model.take()
				for _, r := range all {
					total += r.bytes
				}
				if err != nil || len(all) != s.model.turns {
					t.Logf("%d requests, %v: %.500s", len(all), err, out)
				}
				return total, len(all)
			}
			for _, size := range []int{100, 5_000, 12_000, 30_000, 120_000, 1_300_000, 11_000_000} {
				writeAll(t, s.log, strings.Repeat("a line of the log, with some words\n", size/35+1))
				native, n := cost()
				s.run(workerProgram, "mcp", "install", h.name)
				wrapped, w := cost()
				s.run(workerProgram, "mcp", "uninstall", h.name)
				t.Logf("a result of %d bytes: %d without in %d turns, %d with in %d turns: %+d", size, native, n, wrapped, w, wrapped-native)
			}
		})
	}
}

func writeAll(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Claude Code asks for a permission, and a person answers in another terminal.
func TestPermissionOfClaudeCode(t *testing.T) {
	packages := os.Getenv("STEVEDORE_HOSTS")
	if packages == "" {
		t.Skip("make hosts installs the hosts and runs this test")
	}
	plugin, err := filepath.Abs("hosts/claude-code")
	if err != nil {
		t.Fatal(err)
	}
	up := startUp(t, "--ask", "coding_host", "--console", "off")
	bin, home := t.TempDir(), t.TempDir()
	writeAll(t, filepath.Join(bin, "stevedore"), "#!/bin/sh\nexec '"+workerProgram+"' \"$@\" --data '"+up.data+"'\n")
	if err := os.Chmod(filepath.Join(bin, "stevedore"), 0o700); err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewServer(&scriptedModel{command: "touch allowed.txt"})
	defer endpoint.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(packages, ".bin", "claude"), "-p", "run it", "--model", "claude-sonnet-4-5", "--plugin-dir", plugin)
	cmd.Dir = home
	cmd.Env = append(cleanEnvironment(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "ANTHROPIC_BASE_URL="+endpoint.URL, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	ended := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		ended <- err
	}()
	for answered := false; ; {
		select {
		case err := <-ended:
			if _, missing := os.Stat(filepath.Join(home, "allowed.txt")); err != nil || missing != nil || !answered {
				t.Errorf("%v, %v, answered: %v", err, missing, answered)
			}
			return
		case <-time.After(time.Second):
		}
		list, err := exec.CommandContext(t.Context(), workerProgram, "approvals", "ls", "--data", up.data).Output()
		if id, _, ok := strings.Cut(string(list), " (session"); err == nil && ok && !answered {
			answered = true
			if out, err := exec.CommandContext(t.Context(), workerProgram, "approvals", "yes", id, "--data", up.data).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
}

// scriptedModel calls read_text_file in the protocols of Anthropic, OpenAI and Google, or Bash of
// Claude Code, if it has a command. Without turns, it does so once; otherwise it reads the file
// path first, then the file small, so that it gets that many requests.
type scriptedModel struct {
	path    string
	command string
	shell   string // the tool for command, default Bash
	small   string
	turns   int

	mu       sync.Mutex
	requests []modelRequest
}

// modelRequest is a request with tools.
type modelRequest struct {
	bytes int
	reads bool // it offers read_result
	body  string
}

func (m *scriptedModel) take() []modelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.requests
	m.requests = nil
	return all
}

type offeredTool struct {
	Name      string
	Tools     []offeredTool // of a namespace of Codex
	Functions []offeredTool `json:"functionDeclarations"`
}

func (m *scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in struct {
		Tools                     []offeredTool
		Messages, Input, Contents json.RawMessage
	}
	if json.Unmarshal(body, &in) != nil || strings.Contains(r.URL.Path, "count_tokens") {
		fmt.Fprint(w, `{"input_tokens":1,"data":[]}`)
		return
	}
	history := string(in.Messages) + string(in.Input) + string(in.Contents)
	answered := 0
	for _, answer := range []string{`"tool_result"`, `"function_call_output"`, `"functionResponse"`} {
		answered += strings.Count(history, answer)
	}
	wanted, arguments := "read_text_file", map[string]string{"path": m.path}
	search, _, _ := findTool(in.Tools, "ToolSearch", "")
	first := 0 // answers before that of the first call
	if search != "" && m.command == "" {
		first = 1
	}
	if answered > first && m.turns > 0 {
		// Gemini CLI ends a session that repeats a call.
		arguments["path"] = filepath.Dir(m.small) + strings.Repeat("/.", answered) + "/" + filepath.Base(m.small)
	}
	if m.command != "" {
		command := m.command
		if m.turns > 0 && answered > 0 {
			command = fmt.Sprintf("echo %d", answered)
		}
		wanted, arguments = cmp.Or(m.shell, "Bash"), map[string]string{"command": command, "description": "run it"}
		if wanted == "exec_command" {
			arguments = map[string]string{"cmd": command}
		}
	}
	tool, namespace, reads := findTool(in.Tools, wanted, "")
	if tool == "" && search != "" { // Claude Code defers the tools of servers
		tool = "mcp__files__" + wanted
		if answered == 0 {
			tool, arguments = search, map[string]string{"query": "select:" + tool}
		}
	}
	if tool != "" {
		m.mu.Lock()
		m.requests = append(m.requests, modelRequest{len(body), reads, string(body)})
		m.mu.Unlock()
	}
	if answered > max(m.turns-2, first) {
		tool = ""
	}
	args, _ := json.Marshal(arguments) // strings can be encoded
	quoted, _ := json.Marshal(string(args))
	w.Header().Set("Content-Type", "text/event-stream")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/messages"):
		sayAnthropic(w, tool, string(quoted), answered)
	case strings.HasSuffix(path, "/responses"):
		sayOpenAI(w, tool, namespace, string(quoted), answered)
	case strings.Contains(path, "enerateContent"):
		part := `{"text":"done"}`
		if tool != "" {
			part = fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}}`, tool, args)
		}
		fmt.Fprintf(w, `data: {"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"totalTokenCount":2}}`+"\n\n", part)
	}
}

// findTool returns the tool that is wanted, with its namespace.
func findTool(all []offeredTool, wanted, in string) (tool, namespace string, reads bool) {
	for _, t := range all {
		reads = reads || strings.HasSuffix(t.Name, "read_result")
		if strings.HasSuffix(t.Name, wanted) {
			tool, namespace = t.Name, in
		}
		name, space, more := findTool(append(t.Tools, t.Functions...), wanted, t.Name)
		if reads = reads || more; name != "" {
			tool, namespace = name, space
		}
	}
	return tool, namespace, reads
}

func sayAnthropic(w io.Writer, tool, args string, turn int) {
	block, delta, stop := `{"type":"text","text":""}`, `{"type":"text_delta","text":"done"}`, "end_turn"
	if tool != "" {
		block, delta, stop = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, turn, tool), `{"type":"input_json_delta","partial_json":`+args+`}`, "tool_use"
	}
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":` + block + `}`, `{"type":"content_block_delta","index":0,"delta":` + delta + `}`, `{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"` + stop + `","stop_sequence":null},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`,
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, event)
	}
}

func sayOpenAI(w io.Writer, tool, namespace, args string, turn int) {
	item := `{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"done","annotations":[]}]}`
	if tool != "" {
		item = fmt.Sprintf(`{"type":"function_call","id":"f%d","call_id":"c%d","name":%q,"namespace":%q,"arguments":%s,"status":"completed"}`, turn, turn, tool, namespace, args)
	}
	fmt.Fprintf(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":%s}\n\n", item)
	fmt.Fprintf(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[%s],\"usage\":{\"input_tokens\":1,\"output_tokens\":1,\"total_tokens\":2}}}\n\n", item)
}
