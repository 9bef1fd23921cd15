package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/cmd/internal/shorten"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/chat"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// hostileEnv names the parser that this process runs on the inputs of its standard input.
const hostileEnv = "STEVEDORE_TEST_PARSER"

// What no input below 1 MB may need: processor time with that of helpers, and memory of the worker.
const (
	mostTime   = 5 * time.Second
	mostMemory = 200 << 20

	endlessTime = time.Second // of a query; some have no end
)

func init() {
	playRole = func() bool {
		name := os.Getenv(hostileEnv)
		if name == "" || filepath.Base(os.Args[0]) == "stevedore" { // that is a helper of the process
			return false
		}
		measureParser(name)
		return true
	}
}

// parsed is what one input needed.
type parsed struct {
	Begin  string // of the input
	Size   int
	CPU    time.Duration
	Memory int64 // bytes above those of the process before
}

// parsers are all ways on which a text of others reaches a parser of the worker or of a command. Tokens
// are what its inputs are made of.
var parsers = map[string]struct {
	tokens string
	setUp  func(dir string) func(input []byte)
}{
	"content": {`[ ] { } "a": , a,b;c | |- " ' < > \t \n \r\n - key: 1.5 2026-01-01T00:00:00Z ERROR \x00 \xff é # ` + "``` ```csv",
		func(string) func([]byte) {
			return func(input []byte) { store(input) }
		}},
	"jq": {`[ ] { } "a": {"a":1} , \n 1e999 "\ud800" nul true -1 {"a":[`, reads(func(ctx context.Context, r *offload.Reader) {
		for _, query := range []string{"length", "[..] | length", ".[0]?"} {
			_, _ = r.JQ(ctx, "s", "a", offload.JQQuery{Query: query})
		}
	})},
	"YAML and XML": {`a: - \n \n\x20\x20 &a *a [*a,*a] { } , <<: | # --- !x "b" <a\x20b='1'> </a> <![CDATA[ &amp; <?xml?> <!DOCTYPE`,
		reads(func(ctx context.Context, r *offload.Reader) {
			_, _ = r.JQ(ctx, "s", "a", offload.JQQuery{Query: "length"})
			_, _ = r.SQL(ctx, "s", offload.SQLQuery{SQL: "SELECT count(*) FROM a"})
		})},
	"sql": {`a,b\n , " \n 1, "x ""y" {"a":1}\n {"b":[]}\n | a | b |\n |---|\n 2026-01-01 12.5, 1,234 a=1 b="c d" [ ]`,
		reads(func(ctx context.Context, r *offload.Reader) {
			_, _ = r.SQL(ctx, "s", offload.SQLQuery{SQL: "SELECT count(*) FROM a"})
		})},
	"lines": {`a \n \r\n \r é \x00 \xff 👨`, reads(func(ctx context.Context, r *offload.Reader) {
		_, _ = r.GetByLines(ctx, "s", "a", offload.LinesQuery{StartLine: -50})
		_, _ = r.GetByID(ctx, "s", "a", 1000, 15000)
		_, _ = r.Grep(ctx, "s", "a", offload.GrepQuery{Pattern: `(\w+)\s+\d{3,}$`})
	})},
	"regular expressions": {`( ) (a? a* ){30} {1000} [ ^ ] \pL .* | (?i) ^ $ \b (?: +`,
		withInput(4000, func(ctx context.Context, r *offload.Reader, input string) {
			_, _ = r.Grep(ctx, "s", "a", offload.GrepQuery{Pattern: input})
		})},
	"jq queries": {`. | [ ] .. recurse(.) range(1e9) , test("((a?){30}){30}b") [range(1e7)] reduce until(false;.) limit(5;.) "\(.)" ( ) def f:f; ` +
		`f; input gsub("a";"b")`,
		withInput(4000, func(ctx context.Context, r *offload.Reader, input string) {
			_, _ = r.JQ(ctx, "s", "a", offload.JQQuery{Query: input})
		})},
	"sql queries": {`SELECT * FROM a , a WHERE ( ) UNION ALL SELECT 1 with recursive x(n) as (select 1 union all select n+1 from x) select count(*) from x; ` +
		`randomblob(1000000000) hex( printf('%1000000d',1) zeroblob(1e9) a LIKE '%a%b%c%d%' JOIN a b ORDER BY 1`,
		withInput(16000, func(ctx context.Context, r *offload.Reader, input string) {
			_, _ = r.SQL(ctx, "s", offload.SQLQuery{SQL: sqlOf(input)})
		})},
	"pages": {`<div> </div> <a\x20href="x"> <table> <tr> <td> <!-- --> & &#x1F; < <b> <ul> <li> <pre> <svg> <script> </p> <p <![CDATA[ <font><b> text`, pages},
	"pictures": {`\x89PNG\r\n\x1a\n IHDR \xff\xd8 \xff\xe0 GIF89a \x2c RIFF WEBPVP8 \x00\x00\xff\xff \x00 IDAT \x3b`, func(string) func([]byte) {
		return func(input []byte) {
			block, _ := json.Marshal([]map[string]any{{"type": "image", "mimeType": "image/png", "data": input}})
			o := offload.NewOffloader(mem.New(offload.StoreConfig{}), offload.Config{Log: zerolog.Nop(), Pool: hostilePool()})
			_, _ = o.Result(context.Background(), tools.Call{ID: "a", Session: "s", Tool: "t"}, tools.Definition{}, &tools.Result{Blocks: block})
		}
	}},
	"MCP frames": {`{"jsonrpc":"2.0", "id":1, "method":"x", "params":{ } [ ] , "a": \n data: event: : " \u0000 "id":{}`, func(string) func([]byte) {
		return func(input []byte) {
			lines := wire.NewLines(bytes.NewReader(input))
			for _, err := lines.Next(); err == nil || wire.IsOfOneMessage(err); _, err = lines.Next() {
			}
			_ = wire.Events(bytes.NewReader(input), new(wire.Resume), func([]*wire.Message, error) {})
		}
	}},
	"settings": {`a: - \n &a *a [ ] { } , "x" | > ? : !!binary <<: # \t \x20 --- workspace:`, ofCommand("settings.yaml", "channels", "ls",
		"--config", "settings.yaml")},
	"JSON of hosts": {`{ } "mcpServers": "a": [ ] , // /* */ "command": "x" \n`, ofCommand(".claude.json", "mcp", "status")},
	"TOML of hosts": {`[mcp_servers.a] a.b.c = { } [ ] [[a]] "x" ''' """ , \n # 1979-05-27 command`, ofCommand(".codex/config.toml", "mcp",
		"status")},
	"cron expressions": {`* */ , - 0-59 1 @every 1s L # ? MON TZ=UTC \x20 99999999999`, func(string) func([]byte) {
		return func(input []byte) { runHere("cron", "next", "--cron", strings.ToValidUTF8(string(input), "")) }
	}},
	"arguments": {`{ } "path": "start_line": "a": [ ] , "1-2" "–" "10-" 1e999 null "$artifact"`, func(dir string) func([]byte) {
		registry := tools.NewRegistry(zerolog.Nop())
		all, _, err := builtin.Tools(builtin.Config{Workspace: dir})
		if err == nil {
			err = registry.Register(all...)
		}
		if err == nil {
			err = registry.Register(offload.NewReader(store([]byte("a\n")), offload.ReaderConfig{Pool: hostilePool()}).Tools()...)
		}
		if err != nil {
			panic(err)
		}
		return func(input []byte) {
			for _, tool := range []string{"read_file", "list_dir", offload.ToolLines, offload.ToolGrep} {
				registry.Run(context.Background(), tools.Call{ID: "1", Session: "s", Tool: tool, Args: input}, nil)
			}
		}
	}},
	"edits": {`a b \n x\n \t} \x20 é`, func(dir string) func([]byte) {
		registry := tools.NewRegistry(zerolog.Nop())
		all, _, err := builtin.Tools(builtin.Config{Workspace: dir})
		if err == nil {
			err = registry.Register(all...)
		}
		if err != nil {
			panic(err)
		}
		return func(input []byte) {
			text := strings.ToValidUTF8(string(input), "")
			_ = os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600)
			for old, changed := range map[string]string{text[:len(text)/2]: strings.ToUpper(text[:len(text)/2]), text[:min(len(text), 3)]: "",
				text + "?": "x"} {
				args, _ := json.Marshal(map[string]any{"path": "f", "old_text": old, "new_text": changed, "replace_all": true})
				registry.Run(context.Background(), tools.Call{ID: "1", Session: "s", Tool: "edit_file", Args: args}, nil)
			}
			args, _ := json.Marshal(map[string]any{"path": ".", "pattern": `(a|b)*\s+x$`})
			registry.Run(context.Background(), tools.Call{ID: "1", Session: "s", Tool: "grep", Args: args}, nil)
		}
	}},
	"markup": {"* ** _ ` ``` [ ](x) ![ < > | |-|\\n # - \\n\\n > 1.\\x20 ~~ \\\\ http://a.b & <b> [^1] \\x20\\x20\\x20\\x20",
		func(string) func([]byte) {
			return func(input []byte) {
				text := strings.ToValidUTF8(string(input), "?")
				all := markup.Parse(text)
				all.Split(4000, markup.InUTF16)
				markup.WriteSlack(all)
				markup.WriteMarkdown(markup.EscapeMarkdown, markup.MarkdownLink)(all)
				styledText(text)
			}
		}},
	"outputs": {`a \n \r ERROR: FAIL \x1b[31m \x08 é \xff \x00 at\x20x.go:1 \u202e`, func(string) func([]byte) {
		return func(input []byte) {
			if s, err := shorten.Summarize(bytes.NewReader(input)); err == nil {
				s.Text("x")
			}
			tools.EscapeLine(string(input))
			tools.OneLine(string(input))
			tools.EscapeJSON(string(input))
			tools.Redact(string(input), "secret", "aaaa")
		}
	}},
	"histories": {`[ ] { } "role":"user", "content": "tool_use_id" {"role":"assistant","content":[ "type":"text", , \n "text":"x" ]}`,
		func(dir string) func([]byte) {
			return func(input []byte) {
				if messages, err := chat.ParseHistory(input); err == nil {
					_, _ = chat.OffloadHistory(context.Background(), messages, dir, chat.Options{})
				}
				_, _ = chat.ParseMessage(input)
				_, _ = agent.DecodeEntry(input)
			}
		}},
	"instructions": {"---\\n name: description: | > &a *a [ ] { - \\n # --- x", func(dir string) func([]byte) {
		return func(input []byte) {
			_ = os.MkdirAll(filepath.Join(dir, ".agents", "skills", "x"), 0o700)
			_ = os.WriteFile(filepath.Join(dir, ".agents", "skills", "x", "SKILL.md"), append([]byte("---\n"), input...), 0o600)
			_ = os.WriteFile(filepath.Join(dir, "AGENTS.md"), input, 0o600)
			_, _ = agent.FindInstructions(dir)
		}
	}},
}

func hostilePool() *limited.Pool {
	path, err := exec.LookPath("stevedore")
	if err != nil {
		panic(err)
	}
	return limited.NewPool(path, "helper")
}

// store stores a text as the artifact "a" of the session "s".
func store(input []byte) offload.Store {
	s := mem.New(offload.StoreConfig{})
	o := offload.NewOffloader(s, offload.Config{Log: zerolog.Nop(), Pool: hostilePool()})
	force := true
	call := tools.Call{ID: "a", Session: "s", Tool: "t", Offload: &force}
	if _, err := o.Result(context.Background(), call, tools.Definition{}, &tools.Result{ForLLM: string(input)}); err != nil {
		panic(err)
	}
	return s
}

// sqlOf makes a query of an expression.
func sqlOf(input string) string {
	if strings.HasPrefix(input, "SELECT") || strings.HasPrefix(input, "WITH") {
		return input
	}
	return "SELECT " + input + " FROM a"
}

func reads(read func(context.Context, *offload.Reader)) func(string) func([]byte) {
	return func(string) func([]byte) {
		return func(input []byte) {
			read(context.Background(), offload.NewReader(store(input), offload.ReaderConfig{Pool: hostilePool()}))
		}
	}
}

// withInput is a query of at most a number of bytes on a text that is fixed.
func withInput(most int, query func(context.Context, *offload.Reader, string)) func(string) func([]byte) {
	return func(string) func([]byte) {
		r := offload.NewReader(store([]byte("a,b\n"+strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,1\n", 20_000))),
			offload.ReaderConfig{Pool: hostilePool(), GrepTime: endlessTime, JQTime: endlessTime, SQLTime: endlessTime})
		return func(input []byte) {
			query(context.Background(), r, strings.ToValidUTF8(string(input[:min(len(input), most)]), ""))
		}
	}
}

// ofCommand runs a command that reads a file of a directory, which is also its home.
func ofCommand(file string, args ...string) func(string) func([]byte) {
	return func(dir string) func([]byte) {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			panic(err)
		}
		for i := range args {
			if args[i] == file {
				args[i] = path
			}
		}
		return func(input []byte) {
			_ = os.WriteFile(path, input, 0o600)
			runHere(args...)
		}
	}
}

func runHere(args ...string) {
	run(context.Background(), args, strings.NewReader(""), io.Discard, io.Discard)
}

// pages serves the input as a page, which web_fetch reads.
func pages(dir string) func([]byte) {
	var page []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}))
	registry := tools.NewRegistry(zerolog.Nop())
	all, _, err := builtin.Tools(builtin.Config{Workspace: dir, Pool: hostilePool(), Web: builtin.WebConfig{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err == nil {
		err = registry.Register(all...)
	}
	if err != nil {
		panic(err)
	}
	return func(input []byte) {
		page = append([]byte("<html><body>"), input...)
		registry.Run(context.Background(), tools.Call{ID: "1", Session: "s", Tool: "web_fetch", Args: []byte(`{"url":"` + srv.URL + `"}`)}, nil)
	}
}

// No generated input below 1 MB takes more than mostTime on an idle machine, or 200 MB of the worker, in any
// parser. A process measures the inputs of a parser, one after the other.
func TestNoInputTakesLong(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	for name := range parsers {
		memory, cpu := int64(mostMemory), mostTime
		switch {
		case strings.Contains(name, "hosts"):
			memory *= 2 // the parser is in a command that ends then
		case strings.HasSuffix(name, "queries"):
			cpu *= 2 // a helper that waits for its turn begins anew; see limited.Pool
		}
		if os.Getenv("STEVEDORE_HOSTILE") == "" {
			cpu *= 4 // beside other tests, the same work takes twice as much processor time
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), hostileEnv+"="+name, "HOME="+t.TempDir(), "GOGC=100")
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			results, n, worst := json.NewDecoder(out), 0, parsed{}
			for ; results.More(); n++ {
				var got parsed
				if err := results.Decode(&got); err != nil {
					t.Fatal(err)
				}
				worst = parsed{CPU: max(worst.CPU, got.CPU), Memory: max(worst.Memory, got.Memory)}
				if got.CPU > cpu || got.Memory > memory {
					t.Errorf("input %d takes %s and %d MB: %d bytes, %s", n, got.CPU, got.Memory>>20, got.Size, got.Begin)
				}
			}
			t.Logf("%d inputs: at most %s and %d MB", n, worst.CPU.Round(time.Millisecond), worst.Memory>>20)
			if err := cmd.Wait(); err != nil || n < sample {
				t.Errorf("the process ended at input %d: %v", n, err)
			}
		})
	}
}

// measureParser is the process of a parser.
func measureParser(name string) {
	dir, err := os.MkdirTemp("", "stevedore-parser-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	parse := parsers[name].setUp(dir)
	if name == "settings" || strings.Contains(name, "hosts") {
		parse(nil)
	}
	if strings.Contains(name, "hosts") {
		_ = os.Setenv("HOME", dir)
	}
	for _, input := range inputsOf(name) {
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak of the memory begins anew
		memory, cpu := peak(), used()
		parse(input)
		line, _ := json.Marshal(parsed{fmt.Sprintf("%.100q", input), len(input), used() - cpu, peak() - memory})
		fmt.Printf("%s\n", line)
	}
}

func used() (total time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}

// peak returns the most memory that the process had since the peak was cleared.
func peak() (bytes int64) {
	status, _ := os.ReadFile("/proc/self/status")
	lines := strings.Split(string(status), "\n")
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "VmHWM:") }); i >= 0 {
		_, _ = fmt.Sscanf(lines[i], "VmHWM: %d kB", &bytes)
	}
	return bytes << 10
}
