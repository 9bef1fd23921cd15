package integration

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// bridgeProgram returns a program in integration/node/bridges for the channel team, which has not started.
func bridgeProgram(t *testing.T, at string, args ...string) *exec.Cmd {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node", "bridges", "node_modules", "@nats-io")); err != nil {
		t.Skip("the packages of the bridges are not installed: run npm ci in integration/node/bridges")
	}
	bridge := exec.CommandContext(t.Context(), node, args...)
	bridge.Dir = filepath.Join("node", "bridges")
	bridge.Env = append(append(cleanEnvironment(), "STEVEDORE_CHANNEL=team"), bridgeLogin(t, "", at)...)
	return bridge
}

// bridgeLogin returns the variables with which a bridge connects to a server.
func bridgeLogin(t *testing.T, prefix, at string) []string {
	t.Helper()
	server, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := server.User.Password()
	return []string{prefix + "NATS_URL=" + server.Host, prefix + "NATS_USER=" + server.User.Username(), prefix + "NATS_PASSWORD=" + password}
}

// A bridge hands in a message whose files together are larger than the server takes: without the
// largest ones, and with a word about them.
func TestFilesOfABridgeFit(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script.jsonl")
	if err := os.WriteFile(script, []byte(`{"text":"Seen."}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "--model", "script:"+script, "--console", "off", "--receive", "team", "--channel", "team=bridge:chat=C1")
	bridge := bridgeProgram(t, u.url, "--input-type=module")
	bridge.Stdin = strings.NewReader(`
import { connect } from "./bridge.mjs";
const bridge = await connect();
const file = (name, size) => ({ name, data: Buffer.alloc(size, "a").toString("base64") });
const message = { id: "1", chat_id: "C1", text: "see", files: [file("small.txt", 100), file("a.txt", 400_000), file("b.txt", 410_000)] };
console.log(await bridge.accept(message), message.files.map((f) => f.name + ": " + (f.problem ?? "")).join(", "));
console.log(await bridge.accept({ id: "2", chat_id: "C1", text: "x".repeat(2_000_000) }));
await bridge.close();
process.exit(0);
`)
	out, err := bridge.CombinedOutput()
	if text := string(out); err != nil || !strings.HasPrefix(text, "true small.txt: , a.txt: , b.txt: there is no room for it") ||
		!strings.Contains(text, "the message is larger than the server takes") || !strings.HasSuffix(text, "false\n") {
		t.Errorf("%v: %s", err, text)
	}
}

// A bridge tells its worker again that it works, if the worker did not hear it.
func TestBridgeThatWorksIsHeard(t *testing.T) {
	t.Parallel()
	server := bustest.Listen(t)
	b := bustest.Dial(t, server, bus.Config{})
	requests := bustest.Subscribe(t, b, b.RPC("message", "team"))
	bridge := bridgeProgram(t, server.URL(), "--input-type=module")
	bridge.Stdin = strings.NewReader(`
import { connect, report, sleep, stopped } from "./bridge.mjs";
await connect();
report("receiving", "the network is down");
for (; !stopped.aborted; await sleep(50)) report("receiving", "");
`)
	if err := bridge.Start(); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{`{}`, `{"error":{"code":"stopping","message":"the worker stops"}}`, `{}`} {
		request, msg := bustest.Next[struct{ Receiving *string }](t, requests)
		if request.Receiving == nil || msg.Respond([]byte(answer)) != nil {
			t.Fatalf("the bridge asked %s", msg.Data)
		}
	}
}

// The status names a bridge whose program does not run, and no longer when one takes its notifications, also one that
// asks for the next notification only when it has sent the one before. It names a program that acknowledges nothing.
func TestSilentBridgeIsNamed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	u := startUp(t, "--console", "off", "--channel", "team=bridge:chat=C1")
	b, err := bus.Connect(t.Context(), bus.Config{Server: u.url, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	is := func(code string) bool {
		t.Helper()
		return slices.ContainsFunc(problemsOf(t, []string{"--server", u.url}), func(p status.Problem) bool { return p.Code == code && p.Name == "team" })
	}
	named := func() bool { t.Helper(); return is(status.BridgeSilent) }
	var consumer jetstream.Consumer
	bustest.WaitUntil(t, "the consumer of the bridge", func() bool {
		consumer, err = b.JetStream().Consumer(t.Context(), b.StreamName(bus.Outbox), b.ChannelConsumer("team").Name)
		return err == nil
	})
	if named() {
		t.Error("a bridge for which nothing waits is named")
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("team"), Body: []byte(`{"text":"hello"}`)}); err != nil {
		t.Fatal(err)
	}
	if !named() {
		t.Error("the status does not name a bridge without a program")
	}
	running, err := consumer.Consume(func(jetstream.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "a program to ask for notifications", func() bool { return !named() })
	running.Stop()
	<-running.Closed()
	msg, err := consumer.Next(jetstream.FetchMaxWait(bustest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	if named() {
		t.Error("a program that sends a notification is named")
	}
	for n := 2; n < 4; n++ { // deliveries
		if is(status.BridgeRepeats) {
			t.Errorf("after %d deliveries, the program is said to acknowledge nothing", n)
		}
		if msg, err = consumer.Next(jetstream.FetchMaxWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	if !is(status.BridgeRepeats) {
		t.Error("the status does not name a program that acknowledges nothing")
	}
	if err := msg.DoubleAck(t.Context()); err != nil {
		t.Error(err)
	}
	if is(status.BridgeRepeats) {
		t.Error("a program that has acknowledged is named")
	}
}
