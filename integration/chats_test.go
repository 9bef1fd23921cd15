package integration

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// chatStage is a worker with a bridge to each fake platform.
type chatStage struct {
	*testing.T
	dir, node string
	slack     *fakeSlack
	discord   *fakeDiscord
	mail      *mailServer
	args      []string
	p         *process
	noMail    bool // starts no bridge to the mails
	bridges   []*exec.Cmd
	said      *lockedBuffer // the log of the bridges
}

func newChatStage(t *testing.T, script string) *chatStage {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node", "bridges", "node_modules", "@slack")); err != nil {
		t.Skip("the packages of the bridges are not installed: run npm ci in integration/node/bridges")
	}
	s := &chatStage{T: t, dir: t.TempDir(), node: node, said: &lockedBuffer{}}
	s.slack, s.discord, s.mail = newFakeSlack(t), newFakeDiscord(t), newMailServer(t, s.dir)
	secret := func(name, content string) string {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	secret("script.jsonl", script)
	s.args = []string{"up", "--json", "--data", filepath.Join(s.dir, "data"), "--listen", bustest.FreeAddress(t), "--workspace", s.dir, "--heartbeat-enabled=false", "--no-sync",
		"--model", "script:" + filepath.Join(s.dir, "script.jsonl"), "--shell-sandbox", "off", "--lease", "1s", "--max-attempts", "30",
		"--channel", "sl=bridge:allow=D1;C1,style=slack",
		"--channel", "di=bridge:chat=D1,allow=S1;V1;F1,style=discord",
		"--channel", "ma=email:host=" + s.mail.smtp + ",tls=ssl,user=me,password=" + secret("mail", mailPassword) + ",from=bot@example.com,to=ann@example.com",
		"--receive", "sl,di,ma",
	}
	return s
}

// start starts the worker and the bridges; kill kills them.
func (s *chatStage) start() {
	s.Helper()
	cmd := exec.Command(workerProgram, s.args...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+s.mail.roots)
	p, err := launchCommand(cmd)
	if err != nil {
		s.Fatal(err)
	}
	s.p = p
	s.Cleanup(func() { p.kill() })
	server, err := url.Parse(urlOf(s.T, p))
	if err != nil {
		s.Fatal(err)
	}
	password, _ := server.User.Password()
	bridges := map[string][]string{
		"slack.mjs":   {"STEVEDORE_CHANNEL=sl", "SLACK_BOT_TOKEN=" + slackBotToken, "SLACK_APP_TOKEN=" + slackAppToken, "SLACK_API_URL=" + s.slack.URL + "/api/"},
		"discord.mjs": {"STEVEDORE_CHANNEL=di", "DISCORD_TOKEN=" + discordToken, "DISCORD_API_URL=" + s.discord.URL},
		"imap.mjs": {"STEVEDORE_CHANNEL=ma", "IMAP_HOST=" + s.mail.imap, "IMAP_USER=me", "IMAP_PASSWORD=" + mailPassword, "IMAP_AUTHSERV=mx.example.com",
			"IMAP_INTERVAL_MS=200", "NODE_EXTRA_CA_CERTS=" + s.mail.roots},
	}
	if s.noMail {
		delete(bridges, "imap.mjs")
	}
	for script, more := range bridges {
		bridge := exec.Command(s.node, script)
		bridge.Dir, bridge.Stderr = filepath.Join("node", "bridges"), s.said
		bridge.Env = append(cleanEnvironment(), append(more, "NATS_URL="+server.Host, "NATS_USER="+server.User.Username(), "NATS_PASSWORD="+password)...)
		if err := bridge.Start(); err != nil {
			s.Fatal(err)
		}
		s.bridges = append(s.bridges, bridge)
	}
	s.Cleanup(func() {
		s.killBridges()
		if s.Failed() {
			s.Logf("the bridges said:\n%s", s.said)
		}
	})
}

func (s *chatStage) killBridges() {
	for _, bridge := range s.bridges {
		_ = bridge.Process.Kill()
		_ = bridge.Wait() // it was killed
	}
	s.bridges = nil
}

func (s *chatStage) kill() {
	s.killBridges()
	s.p.kill()
}

func (s *chatStage) await(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(testTimeout); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("timeout: %s\n%s\n%s", what, s.p.stderr, s.said)
		}
	}
}

// awaitConnections waits until the bots are connected for the first time: a bot does not answer
// what was written before.
func (s *chatStage) awaitConnections() {
	s.Helper()
	s.await("the connections", func() bool {
		s.discord.mu.Lock()
		defer s.discord.mu.Unlock()
		s.slack.mu.Lock()
		defer s.slack.mu.Unlock()
		return s.discord.session > 0 && s.slack.sockets > 0
	})
}

// prompts returns the texts of the user in a session.
func (s *chatStage) prompts(session string) (texts []string) {
	s.Helper()
	shown := worker(s.T, "sessions", "show", session, "--data", filepath.Join(s.dir, "data")).stdout
	for _, part := range strings.Split(shown, "  user\n")[1:] {
		first, _, _ := strings.Cut(strings.TrimSpace(part), "\n")
		texts = append(texts, strings.TrimSpace(first))
	}
	return texts
}

func mailFrom(address, id, results string, more ...string) string {
	header := "Authentication-Results: " + results + "\nReceived: from x\nFrom: Ann <" + address + ">\nTo: bot@example.com\nMessage-ID: " + id
	return strings.Join(append([]string{header}, more...), "\n")
}

const authentic = "mx.example.com; dkim=pass header.i=@example.com; dmarc=pass (p=NONE) header.from=example.com"

// People talk to the agent at three platforms at once. Each message of an allowed chat gets one
// answer, which grows in one message where the platform can edit, also if events arrive twice,
// requests fail and connections end. Strangers get none.
func TestPeopleTalkInChats(t *testing.T) { // not parallel: each has four processes
	slow.Test(t)
	s := newChatStage(t, `{"text":"Hello **Ann**, how are you?","delay":"2s"}
{"text":"Second."}
{"text":"Third."}
{"text":"Fourth."}
`)
	s.slack.failures, s.discord.failures = 3, 3
	// Written before the bot came.
	s.slack.say("D1", "too early", true)
	s.discord.say("D1", "", "too early")
	s.start()

	// The first message, with a confirmation that is lost, and strangers.
	s.awaitConnections()
	s.slack.mu.Lock()
	s.slack.confirm = 1
	s.slack.mu.Unlock()
	s.slack.say("D9", "a secret of a stranger", false)
	s.slack.say("C1", "not for the bot", false)
	s.slack.say("D1", "hi &lt;you&gt; <https://x.example|there>", false)
	s.discord.say("D9", "", "a secret of a stranger")
	s.discord.say("S1", "guild", "not for the bot")
	s.discord.mu.Lock()
	s.discord.lose = 1
	s.discord.mu.Unlock()
	s.discord.say("D1", "", "hi")
	s.mail.deliver(mailFrom("eve@example.com", "<e1@x>", authentic), "a secret of a stranger")
	s.mail.deliver(mailFrom("ann@example.com", "<e2@x>", "mx.example.com; spf=pass; dmarc=fail"), "forged")
	s.mail.deliver(mailFrom("ann@example.com", "<e3@x>", `mx.example.com; spf=pass smtp.mailfrom="x; dmarc=pass"@evil.example`), "forged")
	s.mail.deliver(mailFrom("ann@example.com", "<e4@x>", "mx.evil.example; dmarc=pass"), "forged")
	s.mail.deliver(mailFrom("ann@example.com", "<e5@x>", authentic, "Auto-Submitted: auto-replied"), "I am away")
	mail := s.mail.deliver(mailFrom("Ann@Example.com", "<m1@x>", authentic, "Subject: =?iso-8859-1?Q?Gr=FC=DFe?="), "hi")
	s.mail.mu.Lock()
	s.mail.drop = 1
	s.mail.mu.Unlock()
	s.mail.disconnect()

	s.slack.awaitShown(t, "D1", "Hello *Ann*, how are you?")
	s.discord.awaitShown(t, "D1", "Hello **Ann**, how are you?")
	s.mail.await(t, "the first mail", func() bool { return len(s.mail.sent) == 1 && mail.seen })
	s.slack.mu.Lock()
	s.discord.mu.Lock()
	for _, m := range slices.Concat(s.slack.messages, s.discord.messages) {
		if m.Author == "UBOT" && !m.Gone && m.Edits == 0 {
			t.Errorf("the answer %q did not grow", m.Text)
		}
	}
	s.discord.mu.Unlock()
	s.slack.mu.Unlock()
	if got := s.prompts("sl-D1"); !slices.Equal(got, []string{"hi <you> there (https://x.example)"}) {
		t.Errorf("slack: the agent got %q", got)
	}
	s.mail.mu.Lock()
	if m := s.mail.sent[0]; m.Header.Get("Subject") != "Hello Ann, how are you?" || m.Header.Get("In-Reply-To") != "<m1@x>" || s.mail.box[0].headers+s.mail.box[0].fetched+s.mail.box[1].fetched+s.mail.box[4].fetched > 0 {
		t.Errorf("mail %v", m.Header)
	}
	s.mail.mu.Unlock()

	// The same message again, a mention in a channel, and connections that end.
	s.slack.mu.Lock()
	event := s.slack.messages[len(s.slack.messages)-2]
	s.slack.addLocked(map[string]any{"type": "message", "channel": event.Chat, "user": event.Author, "text": event.Text, "ts": event.ID})
	s.slack.mu.Unlock()
	s.slack.tell(map[string]any{"type": "disconnect", "reason": "refresh_requested"})
	s.slack.say("C1", "<@UBOT> in a channel", false)
	s.discord.mu.Lock()
	s.discord.lose = 2
	s.discord.mu.Unlock()
	s.discord.drop() // it resumes
	s.discord.say("D1", "", "again")
	s.discord.say("S1", "guild", "<@UBOT> in a channel")
	s.discord.awaitShown(t, "D1", "Hello **Ann**, how are you?", "Second.")
	s.discord.awaitShown(t, "S1", "Hello **Ann**, how are you?")
	s.slack.awaitShown(t, "C1", "Hello *Ann*, how are you?")
	if got := s.prompts("di-S1"); !slices.Equal(got, []string{"Ann: in a channel"}) {
		t.Errorf("discord: the agent got %q", got)
	}

	// The gateway ends the session, and the bot reads from the history what users wrote meanwhile.
	s.discord.forget()
	s.discord.tell(map[string]any{"op": 7})
	s.discord.say("D1", "", "while away")
	s.discord.awaitShown(t, "D1", "Hello **Ann**, how are you?", "Second.", "Third.")
	// It does not confirm a heartbeat.
	s.discord.mu.Lock()
	s.discord.interval, s.discord.mute = 100, true
	s.discord.mu.Unlock()
	s.discord.drop()
	s.await("a heartbeat", func() bool {
		s.discord.mu.Lock()
		defer s.discord.mu.Unlock()
		return s.discord.beats > 0
	})
	s.discord.mu.Lock()
	s.discord.interval, s.discord.mute = 60_000, false
	s.discord.mu.Unlock()
	s.await("another connection", func() bool {
		s.discord.mu.Lock()
		defer s.discord.mu.Unlock()
		return len(s.discord.logins) > 5
	})
	s.discord.say("D1", "", "still there?")
	s.discord.awaitShown(t, "D1", "Hello **Ann**, how are you?", "Second.", "Third.", "Fourth.")
	if got := s.discord.logins; !slices.Contains(got, "resume") || !slices.Contains(got, "invalid") {
		t.Errorf("logins %q", got)
	}
	s.slack.awaitShown(t, "D1", "Hello *Ann*, how are you?")
	s.slack.check(t, "D9")
	s.discord.check(t, "D9")
	if log := s.p.stderr.String() + s.said.String(); strings.Contains(log, "a secret") || strings.Contains(log, "secret-key") || strings.Contains(log, `secret\\key`) || strings.Count(log, "not allowed") < 2 || strings.Count(log, "ignored a mail") < 4 {
		t.Errorf("log: %s", log)
	}
	if len(s.mail.problems) > 0 {
		t.Errorf("mail: %q", s.mail.problems)
	}
}

// A worker that is killed between receiving and confirming loses no message of any platform,
// answers each once and in the order of its chat, and leaves the right texts.
func TestChatsSurviveKills(t *testing.T) { // not parallel: each has four processes
	slow.Test(t)
	const messages = 3
	s := newChatStage(t, strings.Repeat(`{"text":"An answer of some words.","delay":"100ms"}`+"\n", 3*messages))
	s.start()
	s.awaitConnections()
	s.slack.say("D1", "message 0", false)
	s.discord.say("D1", "", "message 0")
	s.mail.deliver(mailFrom("ann@example.com", "<m0@x>", authentic, "In-Reply-To: <a@x>"), "message 0")
	s.mail.disconnect()
	s.slack.awaitShown(t, "D1", "An answer of some words.")
	for i := 1; i < messages; i++ {
		s.slack.say("D1", fmt.Sprint("message ", i), i == 1) // the event of one is lost
		s.discord.say("D1", "", fmt.Sprint("message ", i))
		s.mail.deliver(mailFrom("ann@example.com", fmt.Sprintf("<m%d@x>", i), authentic, "In-Reply-To: <a@x>"), fmt.Sprint("message ", i, "\n\nOn Monday, Bot wrote:\n> a question\n"))
		time.Sleep(time.Duration(i*40) * time.Millisecond)
		s.kill()
		s.discord.forget()
		s.start()
	}
	complete := func(texts []string) bool {
		return len(texts) >= messages && !slices.ContainsFunc(texts, func(text string) bool { return text != "An answer of some words." })
	}
	for deadline := time.Now().Add(testTimeout); !complete(s.slack.shown("D1")) || !complete(s.discord.shown("D1")); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("slack shows %q, discord %q", s.slack.shown("D1"), s.discord.shown("D1"))
		}
	}
	s.mail.await(t, "all mails", func() bool { return len(s.mail.sent) >= messages })
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprint("message ", i))
	}
	for _, session := range []string{"sl-D1", "di-D1", "ma-ann@example.com"} {
		var got []string
		for deadline := time.Now().Add(testTimeout); !slices.Equal(got, want) && time.Now().Before(deadline); {
			got = s.prompts(session)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the agent got %q, want %q", session, got, want)
		}
	}
	s.slack.check(t, "D9")
	s.discord.check(t, "D9")
}

// The first message of a chat is not lost if the worker dies after it has connected and before it
// has heard of the message; what was written before the bot came gets no answer.
func TestFirstMessageSurvivesAKill(t *testing.T) { // not parallel: each has three processes
	s := newChatStage(t, strings.Repeat(`{"text":"An answer."}`+"\n", 2))
	s.noMail = true
	s.slack.say("D1", "too early", true)
	s.discord.say("D1", "", "too early")
	s.slack.hush(true)
	s.discord.hush(true)
	s.start()
	s.await("the connections", func() bool {
		s.discord.mu.Lock()
		defer s.discord.mu.Unlock()
		s.slack.mu.Lock()
		defer s.slack.mu.Unlock()
		return s.discord.dials > 0 && s.slack.dials > 0
	})
	s.slack.say("D1", "hi", true)
	s.discord.say("D1", "", "hi")
	s.kill()
	s.slack.hush(false)
	s.discord.hush(false)
	s.start()
	s.slack.awaitShown(t, "D1", "An answer.")
	s.discord.awaitShown(t, "D1", "An answer.")
	for _, session := range []string{"sl-D1", "di-D1"} {
		if got := s.prompts(session); !slices.Equal(got, []string{"hi"}) {
			t.Errorf("%s: the agent got %q", session, got)
		}
	}
}

// Discord no longer takes the answer to a button, for example because the worker was away. The next messages
// do not wait for it. Nor does it let the bot edit a message: the answer comes instead of its draft.
func TestAnswerToAButtonIsRefused(t *testing.T) { // not parallel: each has three processes
	s := newChatStage(t, `{"text":"First of all.","delay":"2s"}`+"\n"+`{"text":"Second."}`+"\n")
	s.discord.frozen = true
	s.noMail = true
	s.start()
	s.awaitConnections()
	s.discord.say("D1", "", "hi")
	s.discord.awaitShown(t, "D1", "First of all.")
	s.discord.press("D1", "K")
	s.discord.say("D1", "", "again")
	s.discord.awaitShown(t, "D1", "First of all.", "Second.")
}

// The status names the bots whose tokens are refused, and what users and the agent write meanwhile is not lost, also in threads.
func TestRefusedBotsAreNamed(t *testing.T) { // not parallel: each has four processes
	slow.Test(t)
	s := newChatStage(t, `{"text":"First."}`+"\n"+`{"text":"Second."}`+"\n")
	s.start()
	s.awaitConnections()
	hi := s.slack.say("D1", "hi", false)
	s.discord.say("D1", "", "hi")
	s.slack.awaitShown(t, "D1", "First.")
	s.discord.awaitShown(t, "D1", "First.")
	at := []string{"--data", filepath.Join(s.dir, "data")}
	failing := func(kind trouble.Kind) (names []string) {
		for _, p := range problemsOf(t, at) {
			if p.Code == string(kind) {
				names = append(names, p.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := failing(trouble.Receiver); got != nil {
		t.Errorf("%q fail", got)
	}
	for _, away := range []bool{true, false} {
		s.discord.mu.Lock()
		s.discord.away = away
		s.discord.mu.Unlock()
		s.discord.drop()
		s.await(fmt.Sprint("the gateway to be away: ", away), func() bool { return slices.Contains(failing(trouble.Receiver), "di") == away })
	}
	s.slack.limited = true // Slack lets nobody read all messages at once
	s.slack.revoke(true)
	s.discord.revoke(true)
	s.mail.mu.Lock()
	s.mail.refuse = true
	s.mail.mu.Unlock()
	s.slack.tell(map[string]any{"type": "disconnect", "reason": "refresh_requested"})
	s.discord.drop()
	s.mail.disconnect()
	s.slack.say("D1", "again", true)
	s.slack.say("D1/"+hi, "in a thread", true)
	s.discord.say("D1", "", "again")
	s.discord.say("T1", "guild", "<@UBOT> in a thread")
	s.discord.say("T2", "guild", "<@UBOT> in an old thread")
	s.discord.say("T3", "guild", "<@UBOT> in the thread that was archived last")
	s.discord.say("T4", "guild", "<@UBOT> in a forum, which has only threads")
	s.discord.say("V1", "guild", "<@UBOT> in a channel that has none")
	for _, channel := range []string{"di", "sl"} {
		if got := worker(t, append(at, "call", "message", "content=Kept.", "--channel", channel, "--chat-id", "D1")...); got.code != 0 {
			t.Errorf("%+v", got)
		}
	}
	s.await("all bots to be named", func() bool { return slices.Equal(failing(trouble.Receiver), []string{"di", "ma", "sl"}) })
	s.await("the unsent messages to be named", func() bool { return slices.Equal(failing(trouble.Channel), []string{"di", "sl"}) })
	// The bot does not use up its logins of a day.
	s.await("the gateway to refuse the bot", func() bool {
		return strings.Contains(s.said.String(), `"error":"the gateway refuses the bot: Authentication failed","pause_s":300}`)
	})
	s.slack.revoke(false)
	s.discord.revoke(false)
	s.mail.mu.Lock()
	s.mail.refuse = false
	s.mail.mu.Unlock()
	s.discord.forget()
	s.kill()
	s.start()
	s.slack.awaitShown(t, "D1", "First.", "Kept.", "Second.")
	s.slack.awaitShown(t, "D1/"+hi, "First.")
	s.discord.awaitShown(t, "D1", "First.", "Kept.", "Second.")
	for _, chat := range []string{"T1", "T2", "T3", "T4", "V1"} {
		s.discord.awaitShown(t, chat, "First.")
	}
	s.mail.deliver(mailFrom("ann@example.com", "<m1@x>", authentic), strings.Repeat("many words\n", 10_000))
	s.await("a long mail", func() bool {
		return strings.Contains(worker(t, append([]string{"sessions", "show", "ma-ann@example.com"}, at...)...).stdout, "(The mail is longer than what you see of it.)")
	})
}
