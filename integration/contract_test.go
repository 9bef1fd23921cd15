package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/schema"
	"github.com/stevedore-bus/stevedore/tools"
)

// internalSubjects are those that only workers use; the others are operations.
var internalSubjects = regexp.MustCompile(`^stevedore\.(claim|stored\.claim|report|stored\.report|schedule|tick|run|session|rpc\.(offer|trimmed|running|workers))\b`)

// Real messages of every subject of the contract fit its schemas.
func TestRealTrafficFitsTheSchemas(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script.jsonl")
	turns := `{"text":"Let me look.","tools":[{"name":"list_dir","input":{"path":"."}}]}` + "\n" + `{"text":"Done."}` + "\n" + `{"for":"in the background"}` + "\n" + `{"text":"Background work is done."}` + "\n"
	if err := os.WriteFile(script, []byte(turns), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "--model", "script:"+script, "--remote-tool", "shout=acme.shout", "--ask", "write_file", "--console", "off",
		"--receive", "team", "--channel", "team=bridge:chat=C1")
	nc, err := nats.Connect(u.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	watcher, err := nats.Connect(u.url) // sees everything, also the answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Close)
	c := &contract{t: t, requests: map[string]operation{}, seen: map[string]int{}}
	if _, err := watcher.Subscribe(">", c.check); err != nil {
		t.Fatal(err)
	}
	for subject, answer := range map[string]string{
		"acme.shout.definition": `{"description":"Shout.","parameters":{"type":"object"},"effect":"idempotent"}`,
		"acme.shout":            `{"for_llm":"HI!","for_user":"HI!"}`,
	} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}

	ask := func(subject, body string) map[string]any {
		t.Helper()
		msg, err := nc.Request("stevedore.rpc."+subject, []byte(body), testTimeout)
		if err != nil {
			t.Fatalf("request %s: %v", subject, err)
		}
		var answer map[string]any
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			t.Fatalf("request %s: %v\n%s", subject, err, msg.Data)
		}
		return answer
	}
	publish := func(subject, body string) {
		t.Helper()
		if err := nc.Publish("stevedore."+subject, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}

	// Calls, small and big, and reading back.
	ask("call.default.shell.s1.big", `{"args":{"command":"seq 1 50000"}}`)
	ask("call.default.read_file", `{"id":"small","session":"s1","args":{"path":"note.txt"},"channel":"console"}`)
	ask("call.default.read_file.s1.none", `{"args":{"path":"none"}}`)
	ask("submit.default.read_file.s1.sub", `{"args":{"path":"note.txt"},"deadline":"2099-01-01T00:00:00Z"}`)
	ask("submit.default.read_file", `{"id":"sub2","session":"s1","args":{"path":"note.txt"}}`)
	publish("call.default.read_file.s1.pub", `{"args":{"path":"note.txt"},"offload":true}`)
	publish("raw.default.mine.s1.raw", `{"for_llm":"done","for_user":"Done."}`)
	publish("raw.default.mine.s1.raw2", `{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}`)
	publish("call.default.read_file.s1.broken", `no JSON`)
	publish("notify.console", `{"text":"**hi**","format":"markdown"}`)
	ask("call.default.shout.s1.loud", `{"args":{"text":"hi"}}`)
	for function, body := range map[string]string{
		"get": `"offset":3`, "lines": `"start_line":2,"end_line":4`, "grep": `"pattern":"^4999","context_before":1`,
		"jq": `"query":"."`, "read": `"limit":100`, "record": `"x":1`, "info": `"x":1`,
	} {
		ask("artifact.s1."+function, `{"artifact_id":"big",`+body+`}`)
	}
	ask("call.default.shell.s1.table", `{"args":{"command":"seq 20000 | sed 's/$/,a cell/; 1i number,text'"}}`)
	ask("artifact.s1.sql", `{"sql":"SELECT max(number) FROM t1","artifacts":["table"]}`)
	ask("artifact.s1.info", `{}`)
	ask("artifact.s1.query", `{"filter":{"tool_name":"shell"},"limit":10}`)
	ask("artifact.s1.grep", `{"artifact_id":"big","pattern":"("}`) // a rejection
	ask("tools.ls", `{}`)
	ask("tools.show", `{"tool":"grep"}`)

	// An agent with progress, and a background task with a completion.
	ask("call.agent.agent.s1.m1", `{"args":{"prompt":"look around"}}`)
	ask("call.default.spawn.s1.child", `{"args":{"task":"work in the background"}}`)
	ask("task.s1.list", `{}`)
	ask("task.s1.get", `{"id":"m1"}`)
	ask("submit.default.shell.s1.long", `{"args":{"command":"sleep 60"}}`)
	ask("task.s1.cancel", `{"id":"long"}`)

	// A bridge; the agent's answer grows.
	ask("message.team", `{}`)
	ask("message.team", `{"id":"1","chat_id":"C1","text":"hello"}`)

	// Approvals.
	ask("submit.default.write_file.s1.w1", `{"args":{"path":"a","content":"a"},"channel":"console"}`)
	ask("submit.default.write_file.s1.w2", `{"args":{"path":"b","content":"b"}}`)
	for deadline := time.Now().Add(testTimeout); ; {
		if list, ok := ask("approval.s1.list", `{}`)["approvals"].([]any); ok && len(list) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the calls do not wait for an approval")
		}
	}
	ask("approvals.list", "")
	ask("artifacts.list", "{}")
	ask("approval.s1.yes", `{"id":"w1","by":"ann"}`)
	ask("approval.s1.no", `{"id":"w2","reason":"not today"}`)

	// Jobs.
	ask("cron.s1.add", `{"name":"tea","every":"1h","tool":"message","args":{"content":"Tea!"}}`)
	ask("cron.s1.update", `{"name":"tea","every":"2h"}`)
	for _, action := range []string{"get", "disable", "enable", "remove"} {
		ask("cron.s1."+action, `{"name":"tea"}`)
	}
	ask("cron.s1.list", `{"x":1}`)
	ask("artifact.s1.rm", `{"artifact_id":"big"}`)

	names := []string{"answer toolDefinition", "rejection"}
	for _, op := range operations {
		if names = append(names, op.Name); op.Answer != "" {
			names = append(names, "answer "+op.Name)
		}
	}
	c.await(names...)
}

// contract checks messages against the schemas.
type contract struct {
	t        *testing.T
	mu       sync.Mutex
	requests map[string]operation // by reply subject
	seen     map[string]int       // by operation
	schemas  map[string]*jsonschema.Resolved
}

func (c *contract) check(m *nats.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op, ok := c.requests[m.Subject]; ok {
		name, body := "answer "+op.Name, op.Answer
		if m.Header.Get("Nats-Service-Error-Code") != "" {
			name, body = "rejection", "Rejection"
		}
		c.seen[name]++
		c.validate(m, body)
		return
	}
	if first, _, _ := strings.Cut(m.Subject, "."); first != "stevedore" && first != "acme" || internalSubjects.MatchString(m.Subject) {
		return
	}
	i := slices.IndexFunc(operations, func(op operation) bool { return matches(op.Subject, m.Subject) })
	if i < 0 {
		c.t.Errorf("the contract has no subject for a message on %s", m.Subject)
		return
	}
	op := operations[i]
	c.seen[op.Name]++
	if op.Answer != "" && m.Reply != "" {
		c.requests[m.Reply] = op
	}
	if string(m.Data) != "no JSON" && op.Body != "" {
		c.validate(m, op.Body)
	}
}

func (c *contract) validate(m *nats.Msg, name string) {
	if c.schemas[name] == nil {
		doc, err := schema.Document()
		if err != nil {
			c.t.Error(err)
			return
		}
		doc.Ref = "#/$defs/" + name
		s, err := doc.Resolve(nil)
		if err != nil {
			c.t.Error(err)
			return
		}
		if c.schemas == nil {
			c.schemas = map[string]*jsonschema.Resolved{}
		}
		c.schemas[name] = s
	}
	var body any
	if err := json.Unmarshal(m.Data, &body); err != nil {
		c.t.Errorf("%s: %v", m.Subject, err)
		return
	}
	fields, _ := body.(map[string]any)
	for field := range fields { // the schemas allow unknown fields, but Stevedore sends none
		if known := c.schemas[name].Schema().Defs[name].Properties; known != nil && known[field] == nil && field != "x" {
			c.t.Errorf("the schema %s has no field %q, which a message on %s has", name, field, m.Subject)
		}
	}
	if err := c.schemas[name].Validate(body); err != nil {
		c.t.Errorf("the message on %s does not fit the schema %s: %v\n%s", m.Subject, name, err, tools.Excerpt(string(m.Data), 2000))
	}
}

func (c *contract) await(names ...string) {
	c.t.Helper()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return c.seen[name] > 0 })
		c.mu.Unlock()
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no message of %v", missing)
		}
	}
}

// matches reports whether subject has the form of pattern, whose parameters are in braces.
func matches(pattern, subject string) bool {
	if pattern == "{subject}" {
		return strings.HasPrefix(subject, "acme.")
	}
	if rest, ok := strings.CutPrefix(pattern, "{subject}"); ok {
		return strings.HasPrefix(subject, "acme.") && strings.HasSuffix(subject, rest)
	}
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	return len(p) == len(s) && !slices.ContainsFunc(slices.Collect(zip(p, s)), func(pair [2]string) bool {
		return pair[0] != pair[1] && !strings.HasPrefix(pair[0], "{")
	})
}

func zip(a, b []string) func(yield func([2]string) bool) {
	return func(yield func([2]string) bool) {
		for i := range min(len(a), len(b)) {
			if !yield([2]string{a[i], b[i]}) {
				return
			}
		}
	}
}

var (
	// documented finds the subjects of a page; its groups are those after the prefix, and
	// the further last tokens: `stevedore.rpc.tools.ls`, or `.show`.
	documented = regexp.MustCompile("`stevedore\\.([^` ]+)`((?:(?:,| or|, or) `\\.[a-z]+`)*)")
	lastToken  = regexp.MustCompile("`\\.([a-z]+)`")
	optional   = regexp.MustCompile(`\[([^\]]+)\]`)
)

// documentedSubjects returns the subjects that a page names, with <parameters>.
func documentedSubjects(page string) []string {
	var all []string
	for _, m := range documented.FindAllStringSubmatch(page, -1) {
		subjects := []string{m[1]}
		if optional.MatchString(m[1]) {
			subjects = []string{optional.ReplaceAllString(m[1], "$1"), optional.ReplaceAllString(m[1], "")}
		}
		for _, token := range lastToken.FindAllStringSubmatch(m[2], -1) {
			parent := m[1][:strings.LastIndex(m[1], ".")]
			subjects = append(subjects, parent+"."+token[1])
		}
		all = append(all, subjects...)
	}
	return all
}

// docs/protocol.md names every subject of the contract, and no other.
func TestDocsNameTheSubjectsOfTheContract(t *testing.T) {
	text, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	subjects := documentedSubjects(string(text))
	if len(subjects) < 20 {
		t.Fatalf("only %d subjects were found: %q", len(subjects), subjects)
	}
	for _, subject := range subjects {
		if !slices.ContainsFunc(operations, func(op operation) bool {
			return names(subject, op.Subject) || strings.HasPrefix(op.Subject, "stevedore."+subject+".") // or a group of them
		}) {
			t.Errorf("docs/protocol.md names stevedore.%s, which is not in the contract", subject)
		}
	}
	for _, op := range operations {
		if strings.HasPrefix(op.Subject, "{subject}") {
			continue // the section about remote tools
		}
		i := slices.IndexFunc(subjects, func(subject string) bool { return names(subject, op.Subject) })
		function := op.Subject[strings.LastIndex(op.Subject, ".")+1:]
		switch {
		case i < 0:
			t.Errorf("docs/protocol.md does not name the subject %s", op.Subject)
		case (strings.HasSuffix(subjects[i], ".<function>") || strings.HasSuffix(subjects[i], ".<action>")) && !strings.Contains(string(text), "`"+function+"`"):
			t.Errorf("docs/protocol.md does not name the function %s of %s", function, subjects[i])
		}
	}
}

// names reports whether a documented subject names a subject of the contract.
func names(documented, subject string) bool {
	d, s := strings.Split(documented, "."), strings.Split(subject, ".")[1:]
	if d[len(d)-1] == ">" {
		d, s = d[:len(d)-1], s[:min(len(d)-1, len(s))]
	}
	return len(d) == len(s) && !slices.ContainsFunc(slices.Collect(zip(d, s)), func(pair [2]string) bool {
		parameter := pair[0] == "*" || strings.HasPrefix(pair[0], "<")
		return pair[0] != pair[1] && !parameter && !strings.HasPrefix(pair[1], "{")
	})
}

// The service answers the requests of the contract, and no others.
func TestServiceHasTheEndpointsOfTheContract(t *testing.T) {
	u := startUp(t, "--console", "off", "--receive", "team", "--channel", "team=bridge:chat=C1", "--model", "script:"+os.DevNull)
	nc, err := nats.Connect(u.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var info struct {
		Endpoints []struct{ Subject string }
	}
	for _, service := range []string{"stevedore", "stevedore-messages"} {
		msg, err := nc.Request("$SRV.INFO."+service, nil, testTimeout)
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		known := info.Endpoints
		info.Endpoints = nil
		if err := json.Unmarshal(msg.Data, &info); err != nil || len(info.Endpoints) == 0 {
			t.Fatalf("%v: %s", err, msg.Data)
		}
		info.Endpoints = append(known, info.Endpoints...)
	}
	for _, op := range operations {
		if strings.HasPrefix(op.Subject, "stevedore.rpc.") && !slices.ContainsFunc(info.Endpoints, func(e struct{ Subject string }) bool {
			return names(strings.TrimPrefix(e.Subject, "stevedore."), op.Subject)
		}) {
			t.Errorf("no endpoint serves %s", op.Subject)
		}
	}
	for _, e := range info.Endpoints {
		if !slices.ContainsFunc(operations, func(op operation) bool { return names(strings.TrimPrefix(e.Subject, "stevedore."), op.Subject) }) {
			t.Errorf("the contract does not have the endpoint %s", e.Subject)
		}
	}
}

func TestSchemas(t *testing.T) {
	if o := worker(t, "schema", "Nonsense"); o.code != 2 || !strings.Contains(o.stderr, "Nonsense") {
		t.Errorf("an unknown schema: exit code %d, %s", o.code, o.stderr)
	}
	if o := worker(t, "schema", "Info"); o.code != 0 || !strings.Contains(o.stdout, `"$defs"`) {
		t.Errorf("a schema that refers to others: exit code %d, %s", o.code, o.stdout)
	}
}
