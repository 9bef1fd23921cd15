package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// evil clears the screen, turns the direction of the text around, and forges a line.
const evil = "EVIL\x1b[2J\u009b31m\u202e\u2028\r\nFORGED \x07"

// fill makes every text in v evil.
func fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if schema, ok := v.Interface().(*jsonschema.Schema); ok {
			schema.Description, schema.Properties = evil, map[string]*jsonschema.Schema{evil: {Type: "string", Description: evil}}
			return
		}
		fill(v.Elem(), depth+4)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+4)
		fill(value, depth+4)
		v.SetMapIndex(key, value)
	case reflect.Slice:
		switch v.Type() {
		case reflect.TypeFor[json.RawMessage]():
			v.SetBytes([]byte(`{"a":` + quoted(evil) + `,"b":1}`))
		case reflect.TypeFor[[]byte]():
			v.SetBytes([]byte(evil))
		default:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth+1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now().UTC()))
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field, depth+1)
			}
		}
	}
}

func filled[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem(), 0)
	return v
}

func quoted(text string) string {
	data, _ := json.Marshal(text)
	return string(data)
}

// forgedBus is a server on which every operation is answered, and every stream filled, with evil texts.
func forgedBus(t *testing.T) *embedded.Server {
	srv := bustest.Listen(t)
	b := bustest.Connect(t, srv, bus.Config{Log: bustest.Log(t)})
	for _, op := range rpc.Operations() {
		out := reflect.New(op.Out)
		fill(out.Elem(), 0)
		body, err := json.Marshal(out.Interface())
		if err != nil {
			t.Fatal(op.Name, err)
		}
		if text, ok := out.Elem().Interface().(interface{ Text() string }); ok { // as the service adds it
			body = []byte(`{"text":` + quoted(text.Text()) + `,` + string(body[1:]))
		}
		answer := &nats.Msg{Data: body}
		words := strings.Split(op.Subject, ".")
		for i, word := range words {
			if strings.ToUpper(word) == word {
				words[i] = "*"
			}
		}
		_, err = b.Conn().Subscribe(b.RPC(strings.Join(words, ".")), func(m *nats.Msg) {
			reply := *answer
			if strings.Contains(m.Subject, ".failing.") {
				reply.Header = nats.Header{micro.ErrorHeader: {tools.OneLine(evil) + "\u009b31m\u202e"}, micro.ErrorCodeHeader: {"failed"}}
			}
			_ = m.RespondMsg(&reply)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(subject string, v any) {
		t.Helper()
		body, err := json.Marshal(v)
		if err == nil {
			_, err = b.Publish(t.Context(), bus.Message{Subject: subject, Body: body})
		}
		if err != nil {
			t.Fatal(subject, err)
		}
	}
	for _, kind := range []agent.Kind{agent.KindUser, agent.KindAssistant, agent.KindResults, agent.KindOffloaded, agent.KindCompacted,
		agent.KindNotice, agent.KindWaiting, agent.KindResumed, agent.KindEnd, evil} {
		e := filled[agent.Entry]()
		e.Kind = kind
		switch kind {
		case agent.KindUser, agent.KindAssistant:
			e.Message.Content = append(e.Message.Content, agent.Block{Type: agent.TypeText, Text: evil}, agent.Block{Type: agent.TypeToolUse, Name: evil})
		default:
			e.Message = nil
		}
		put(b.Session("s"), e)
	}
	letter := filled[dead.Letter]()
	letter.Kind, letter.Gzip, letter.BodySequence = bus.DeadCall, nil, 0
	put(b.Dead(bus.DeadCall, "x"), letter)
	result := filled[tools.ResultEvent]()
	result.ID, result.Session, result.Outcome, result.IsError, result.Error = "c1", "s", tools.Completed, false, nil
	put(b.Result("s", "c1"), result)
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return srv
}

// What comes from files, servers and models reaches a terminal only as visible text, also in errors and
// the log. A name in a line begins no other line, also in a pipe, and JSON stays JSON.
func TestForgedTextsDoNotReachTheTerminal(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("it runs about eighty short commands")
	}
	srv, home := forgedBus(t), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(".claude.json", `{"mcpServers":{`+quoted(evil)+`:{"command":`+quoted("/bin/"+evil)+`,"args":["x"]}},"projects":{`+
		quoted("/"+evil)+`:{"mcpServers":{"p":{"command":"x"}}}}}`)
	write(".cursor/mcp.json", `{"mcpServers":{"a":`+evil+`}}`)
	write("data/savings/"+time.Now().UTC().Format(time.DateOnly)+".jsonl", `{"v":1,"host":`+quoted(evil)+`,"tool":`+quoted(evil)+`,"whole":10,"shown":5}`+"\n")
	settings, broken := write("settings.yaml", strconv.QuoteToASCII(evil)+": 1\n"), write("EVIL.yaml", "a: [\n"+evil)
	bus := []string{"--server", srv.URL()}
	at := func(session string) []string { return []string{"--server", srv.URL(), "--session", session} }
	type command struct {
		args    []string
		content bool
	}
	var commands []command
	add := func(content bool, flags []string, lines ...string) {
		for _, line := range lines {
			args := strings.Fields(line)
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "EVIL", evil)
			}
			commands = append(commands, command{append(args, flags...), content})
		}
	}
	add(false, bus, "tools ls", "tools ls --json", "approvals ls --json", "dead ls", "dead ls --json", "dead retry 1", "sessions ls", "sessions ls --json",
		"sessions show s --trace", "sessions show s --trace EVIL", "sessions show EVIL", "sessions show s EVIL", "sessions ls --text EVIL")
	add(true, bus, "tools show x", "approvals ls", "dead show 1", "dead show 1 --json", "sessions show s", "sessions export s")
	add(false, at("s"), "artifacts ls --json", "tasks ls --json", "tasks get c1 --json", "artifacts get a --json", "artifacts ls",
		"cron add x call EVIL=EVIL --every 1h", "cron ls", "cron ls --json", "cron get x")
	add(true, at("s"), "tasks ls", "tasks get c1", "tasks cancel c1", "approvals yes c1", "approvals no c1", "artifacts info a", "artifacts lines a 1 2",
		"artifacts grep a x", "artifacts jq a .", "artifacts get a", "artifacts rm EVIL", "cron get EVIL", "call EVIL --id c1")
	add(false, at("failing"), "tasks ls", "tasks get c1", "artifacts ls", "artifacts get a", "artifacts lines a 1 2", "approvals yes c1")
	add(true, at(evil), "tasks cancel EVIL", "artifacts get EVIL", "approvals no EVIL")
	add(false, at(evil), "call EVIL", "call x --queue EVIL", "cron update EVIL --every 1h", "agent x --wait 5s")
	add(false, bus, "dead show EVIL", "status EVIL", "tools show x --queue EVIL --log-level EVIL")
	add(false, []string{"--data", filepath.Join(home, "data")}, "mcp install claude-code", "mcp install claude-code --dry-run --json",
		"mcp install claude-code EVIL", "mcp install EVIL", "mcp uninstall claude-code", "usage --by host", "usage --by host --json", "read EVIL", "run EVIL")
	add(false, []string{"--config", settings}, "tools ls", "channels ls")
	add(false, nil, "mcp status", "mcp status --json", "channels ls --channel a=EVIL", "channels ls --channel a=EVIL --json", "channels test x --channel x=EVIL",
		"tools ls --data EVIL", "tools ls --config EVIL", "up --workspace EVIL", "health --health EVIL", "EVIL", "mcp EVIL", "help EVIL", "tools ls --config "+broken)

	for _, c := range commands {
		line := invocation{Args: c.args, Dir: home, Env: append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home,
			"XDG_CONFIG_HOME="+home, "TERM=xterm", "LC_ALL=C.UTF-8")}
		name := strings.Join(c.args, " ")
		screen := onScreen(t, func(terminal *os.File) {
			line := line
			line.Terminal = terminal.Name()
			stevedore(t, line)
		})
		if !strings.Contains(screen, "EVIL") {
			t.Errorf("%q does not show the text of the test: %q", name, screen)
		}
		if bad := strings.IndexFunc(ownSequences.ReplaceAllString(screen, ""), controls); bad >= 0 {
			t.Errorf("%q shows %q", name, screen)
		}
		out := string(stevedore(t, line).Both)
		if !c.content && strings.IndexFunc(out, controls) >= 0 {
			t.Errorf("%q prints %q", name, out)
		}
		if !c.content && (strings.Contains("\n"+out, "\nFORGED") || strings.Contains("\n"+screen, "\nFORGED")) {
			t.Errorf("%q prints a forged line: %q", name, out)
		}
		if strings.Contains(name, "--json") {
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
					t.Errorf("%q prints %q, which is not JSON", name, line)
				}
			}
		}
	}
}

// ownSequences are what the program itself writes to a terminal: the faint style, the colours of the
// log, and the removal of the progress.
var ownSequences = regexp.MustCompile("\x1b\\[[0-9;]*m|\r\x1b\\[2K|\r\n")

func controls(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar)
}

// onScreen calls run, which runs a command on a terminal, and returns what that shows.
func onScreen(t *testing.T, run func(*os.File)) string {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals: ", err)
	}
	defer screen.Close()
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = shown.ReadFrom(screen) // ends with an error when no program has the terminal any more
	}()
	run(program)
	program.Close()
	<-ended
	return strings.ReplaceAll(shown.String(), "\r\n", "\n")
}
