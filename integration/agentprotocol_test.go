package integration

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// startAgentBridge starts the bridge that makes the chats of the channel agents.
func startAgentBridge(t *testing.T, u up, more ...string) (kill func()) {
	t.Helper()
	bridge, said := bridgeProgram(t, u.url, "nats-agent.mjs"), &lockedBuffer{}
	bridge.Env, bridge.Stderr = append(bridge.Env, append(more, "AGENT_OWNER=anna", "AGENT_INTERVAL_S=1")...), said
	if err := bridge.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = bridge.Process.Kill()
		_ = bridge.Wait() // it was killed
	})
	t.Cleanup(func() {
		if kill(); t.Failed() {
			t.Logf("the bridge said:\n%s", said)
		}
	})
	return kill
}

// chatter is a client of the Synadia Agent Protocol, with a plain NATS client: it finds the agent
// as the service "agents", and reads the chunks of a prompt until the terminator. The forms are
// those of the protocol's guide for the nats CLI.
type chatter struct {
	plain
	prompts, status string // subjects
}

// serveAgent starts a worker whose agent is a script.
func serveAgent(t *testing.T, u up, script string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.jsonl")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := launch("serve", "--server", u.url, "--name", "agent", "--workspace", u.workspace, "--model", "script:"+file, "--lease", "1s", "--max-attempts", "20",
		"--tool-output", "none", "--shell-sandbox", "off", "--channel", "team=bridge:chat=main,allow=other", "--receive", "team")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// findAgent returns a client that has found the agent.
func findAgent(t *testing.T, url string) chatter {
	t.Helper()
	c := chatter{plain: connect(t, url)}
	c.discover()
	return c
}

// discover asks all services for their information, as the protocol's clients do.
func (c *chatter) discover() {
	c.Helper()
	infos, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		c.Fatal(err)
	}
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		if err := c.nc.PublishRequest("$SRV.INFO.agents", infos.Subject, nil); err != nil {
			c.Fatal(err)
		}
		for {
			m, err := infos.NextMsg(300 * time.Millisecond)
			if err != nil {
				break
			}
			var info struct {
				Metadata  map[string]string
				Endpoints []struct {
					Name, Subject string
					QueueGroup    string `json:"queue_group"`
					Metadata      map[string]string
				}
			}
			if json.Unmarshal(m.Data, &info) != nil || info.Metadata["session"] != "main" {
				continue
			}
			if info.Metadata["protocol_version"] != "0.3" || info.Metadata["owner"] != "anna" || info.Metadata["agent"] != "stevedore" {
				c.Errorf("metadata %v", info.Metadata)
			}
			for _, e := range info.Endpoints {
				switch e.Name {
				case "prompt":
					c.prompts = e.Subject
					if e.QueueGroup != "agents" || e.Metadata["attachments_ok"] != "true" || e.Metadata["max_payload"] != "1020KB" {
						c.Errorf("the endpoint is %+v", e)
					}
				case "status":
					c.status = e.Subject
				}
			}
			if c.prompts != "" && c.status != "" {
				return
			}
		}
	}
	c.Fatal("no agent")
}

// stream is the answer to a prompt.
type stream struct {
	c     *chatter
	inbox *nats.Subscription
	text  string
	kinds []string // of chunks, without keepalives
	code  string   // of the error
	query struct {
		ID           string
		ReplySubject string `json:"reply_subject"`
		Prompt       string
	}
}

func (c *chatter) prompt(body string) *stream {
	c.Helper()
	inbox, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err == nil {
		err = c.nc.PublishRequest(c.prompts, inbox.Subject, []byte(body))
	}
	if err != nil {
		c.Fatal(err)
	}
	return &stream{c: c, inbox: inbox}
}

// until reads chunks until one has a kind, or until the terminator if that is "".
func (s *stream) until(kind string) *stream {
	s.c.Helper()
	for {
		m, err := s.inbox.NextMsg(testTimeout)
		switch {
		case err != nil:
			s.c.Fatalf("%v after %v %q", err, s.kinds, s.text)
		case len(m.Header) > 0:
			s.code = m.Header.Get("Nats-Service-Error-Code")
			continue
		case len(m.Data) == 0 && kind != "":
			s.c.Fatalf("the stream ended without %s: %v %q %s", kind, s.kinds, s.text, s.code)
		case len(m.Data) == 0:
			return s
		}
		var chunk struct {
			Type string
			Data json.RawMessage
		}
		if err := json.Unmarshal(m.Data, &chunk); err != nil {
			s.c.Fatalf("%s: %v", m.Data, err)
		}
		var text string
		_ = json.Unmarshal(chunk.Data, &text) // the data of a query is an object
		name := chunk.Type
		switch {
		case name == "response":
			s.text += text
		case name == "query":
			if err := json.Unmarshal(chunk.Data, &s.query); err != nil {
				s.c.Fatal(err)
			}
		case text == "keepalive" && kind != "status keepalive":
			continue
		default:
			name += " " + text
		}
		if s.kinds = append(s.kinds, name); name == kind {
			return s
		}
	}
}

// A client of the Synadia Agent Protocol discovers the agent, prompts it with text, JSON and
// files, sees its heartbeats, and gets errors for what no agent can read.
func TestAgentProtocol(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	u := startUp(t)
	long := strings.Repeat("ä long answer ", 8_000)
	script := strings.Join([]string{`{"text":"Hello."}`, `{"text":"` + long + `"}`, `{"text":"A table."}`, `{"text":"A prompt."}`, `{"text":"One."}`, `{"text":"Two."}`, `{"text":"Three."}`, `{"expect":["never"]}`, ""}, "\n")
	startAgentBridge(t, u)
	serveAgent(t, u, script)
	c := findAgent(t, u.url)
	if s := c.prompt("hi").until(""); s.text != "Hello." || !slices.Equal(s.kinds, []string{"status ack", "response"}) || s.code != "" {
		t.Errorf("%+v", s)
	}
	if s := c.prompt(`{"prompt":"at length","unknown":1}`).until(""); s.text != long {
		t.Errorf("%d bytes of %d", len(s.text), len(long))
	}
	table := base64.StdEncoding.EncodeToString([]byte("name,port\nweb,80\n"))
	if s := c.prompt(`{"prompt":"read","attachments":[{"filename":"hosts.csv","content":"` + table + `"}]}`).until(""); s.text != "A table." {
		t.Errorf("%+v", s)
	}
	shown := worker(t, "sessions", "show", "team-main", "--server", u.url).stdout
	if !strings.Contains(shown, "web,80") || strings.Count(shown, "  user\n") != 3 {
		t.Errorf("the conversation:\n%s", shown)
	}
	for _, hostile := range []string{
		"", " \n", `{}`, `{"prompt":7}`, "\xff", `{"prompt":"x","attachments":[{"filename":"../x","content":""}]}`,
		`{"prompt":"x","attachments":[{"filename":"x","content":"_-"}]}`, `{"prompt":"x","attachments":[` + strings.Repeat(`{"filename":"x","content":""},`, 20) + `{"filename":"x","content":""}]}`,
	} {
		if s := c.prompt(hostile).until(""); s.code != "400" || len(s.kinds) > 0 {
			t.Errorf("%.80q: code %q, %v", hostile, s.code, s.kinds)
		}
	}
	again := c.prompt("a prompt").until("")
	if err := c.nc.PublishRequest(c.prompts, again.inbox.Subject, []byte("another one for the same client")); err != nil {
		t.Fatal(err)
	}
	if again.until(""); again.code != "409" {
		t.Errorf("two prompts with one reply subject: %+v", again)
	}
	var row []*stream                                                 // a client that does not wait for acknowledgements
	large := base64.StdEncoding.EncodeToString(make([]byte, 600_000)) // the first prompt takes the longest to store
	for _, text := range []string{`{"prompt":"1 delete it","attachments":[{"filename":"x","content":"` + large + `"}]}`, "2 no, keep it", "3 thanks"} {
		row = append(row, c.prompt(text))
	}
	for i, want := range []string{"One.", "Two.", "Three."} {
		if s := row[i].until(""); s.text != want {
			t.Errorf("prompt %d: %+v", i+1, s)
		}
	}
	if s := c.prompt("/nonsense").until(""); !strings.Contains(s.text, "There is no command /nonsense") {
		t.Errorf("%+v", s)
	}
	if s := c.prompt("fail").until(""); s.code != "500" || !strings.Contains(s.text, "the script does not match") {
		t.Errorf("%+v", s)
	}
	c.forge()
	beats, err := c.nc.SubscribeSync("agents.hb.stevedore.anna.main")
	if err != nil {
		t.Fatal(err)
	}
	beat, err := beats.NextMsg(testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.nc.Request(c.status, nil, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{beat.Data, now.Data} {
		var got struct {
			Session, Owner string
			InstanceID     string    `json:"instance_id"`
			At             time.Time `json:"ts"`
			Interval       int       `json:"interval_s"`
		}
		if err := json.Unmarshal(body, &got); err != nil || got.Session != "main" || got.InstanceID == "" || got.Interval != 1 || got.At.IsZero() {
			t.Errorf("heartbeat %s: %v", body, err)
		}
	}
}

// forge makes a reply subject and a notification name a subject that is no inbox. Nothing is published there, and the
// notification becomes a dead letter, as one does for which no client waits.
func (c chatter) forge() {
	c.Helper()
	const victim = "stevedore.call.default.shell.s.1"
	calls, err := c.nc.SubscribeSync(victim)
	if err != nil {
		c.Fatal(err)
	}
	letters, err := c.nc.SubscribeSync("stevedore.dead.notification.team")
	if err != nil {
		c.Fatal(err)
	}
	if err := c.nc.PublishRequest(c.prompts, victim, []byte(`{}`)); err != nil {
		c.Fatal(err)
	}
	c.publish("stevedore.notify.team.main", `{"text":"x","call":"message-`+victim+`"}`)
	if m, err := letters.NextMsg(testTimeout); err != nil || !strings.Contains(string(m.Data), "no client waits") {
		c.Errorf("dead letter %v, %v", m, err)
	}
	if n, _, err := calls.Pending(); n > 0 || err != nil {
		c.Errorf("%d messages, %v", n, err)
	}
}

// An approval is a query: the call runs if the client answers yes, and not for an answer that is
// neither yes nor no. The stream of a run that is cancelled ends.
func TestAgentProtocolAsks(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	u := startUp(t, "--ask", "shell", "--shell-sandbox", "off")
	const ask = `{"tools":[{"name":"shell","input":{"command":"touch asked"}}]}` + "\n"
	clients := bustest.Listen(t) // which have no login at the server of the worker
	login := bridgeLogin(t, "AGENT_", clients.URL())
	killBridge := startAgentBridge(t, u, login...)
	serveAgent(t, u, ask+`{"text":"Done."}`+"\n"+ask)
	c := findAgent(t, clients.URL())
	s := c.prompt("do it").until("query")
	asked := filepath.Join(u.workspace, "asked")
	if _, err := os.Stat(asked); err == nil || !strings.Contains(s.query.Prompt, "touch asked") {
		t.Errorf("the query %+v, the call ran: %v", s.query, err == nil)
	}
	answer := func(text string) {
		t.Helper()
		if err := c.nc.Publish(s.query.ReplySubject, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.nc.Publish(strings.TrimSuffix(s.query.ReplySubject, s.query.ID)+"FORGED", []byte("yes")); err != nil {
		t.Fatal(err)
	}
	killBridge() // the next one knows which prompt is open
	startAgentBridge(t, u, login...)
	s.until("status keepalive")
	answer("perhaps")
	s.until("query")
	if _, err := os.Stat(asked); err == nil {
		t.Error("the call runs without an approval")
	}
	if !strings.Contains(s.query.Prompt, "yes, no") {
		t.Errorf("the query %+v", s.query)
	}
	if err := c.nc.PublishRequest(c.prompts, s.inbox.Subject, []byte("another one")); err != nil { // does not end this stream
		t.Fatal(err)
	}
	answer(`{"prompt":"yes"}`)
	if s.until(""); s.text != "Done." || s.code != "409" {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(asked); err != nil {
		t.Error(err)
	}

	cancelled := c.prompt("ask again").until("query")
	for _, id := range openCalls(t, u, "team-main") {
		worker(t, "tasks", "cancel", id, "--session", "team-main", "--server", u.url)
	}
	if cancelled.until(""); cancelled.code != "500" {
		t.Errorf("the client of a cancelled run got %+v", cancelled)
	}
}

// openCalls returns the ids of the calls of a session that have not ended.
func openCalls(t *testing.T, u up, session string) (ids []string) {
	t.Helper()
	out := worker(t, "tasks", "ls", "--session", session, "--json", "--server", u.url).stdout
	for line := range strings.Lines(out) {
		var task struct{ ID, State string }
		if err := json.Unmarshal([]byte(line), &task); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if task.State != "cancelled" && task.State != "completed" {
			ids = append(ids, task.ID)
		}
	}
	return ids
}

// The worker and the bridge are killed in the middle of an answer: the clients get the answers of the next ones.
func TestAgentProtocolKilled(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	u := startUp(t)
	script := `{"tools":[{"name":"shell","input":{"command":"until [ -e go ]; do sleep 0.02; done"}}]}` + "\n" + `{"text":"After the kill."}` + "\n"
	killBridge := startAgentBridge(t, u)
	p := serveAgent(t, u, script)
	c := findAgent(t, u.url)
	s := c.prompt("work").until("status ack")
	second := c.prompt("next").until("status ack")
	p.kill()
	killBridge()
	killBridge = startAgentBridge(t, u)
	if err := os.WriteFile(filepath.Join(u.workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	serveAgent(t, u, script+`{"text":"And the next."}`+"\n")
	if s.until(""); s.text == "" {
		t.Errorf("the client whose agent was killed got %+v", s)
	}
	if second.until(""); second.text == "" {
		t.Errorf("the client whose prompt waited got %+v", second)
	}
	killBridge() // the next one knows that the first prompt was answered
	startAgentBridge(t, u)
	c.discover()
	if err := c.nc.PublishRequest(c.prompts, s.inbox.Subject, []byte("work")); err != nil {
		t.Fatal(err)
	}
	for s.code == "" { // the answer may come twice
		s.until("")
	}
	if s.code != "409" {
		t.Errorf("the client that sent its prompt again got %+v", s)
	}
}
