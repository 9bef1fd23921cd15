package integration

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A bridge hands in a message whose files together are larger than the server takes: without the
// largest ones, and with a word about them.
func TestFilesOfABridgeFit(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join("node", "bridges", "node_modules", "@nats-io")); err != nil {
		t.Skip("the packages of the bridges are not installed: run npm ci in integration/node/bridges")
	}
	script := filepath.Join(t.TempDir(), "script.jsonl")
	if err := os.WriteFile(script, []byte(`{"text":"Seen."}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "--model", "script:"+script, "--console", "off", "--receive", "team", "--channel", "team=bridge:chat=C1")
	server, err := url.Parse(u.url)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := server.User.Password()
	bridge := exec.CommandContext(t.Context(), node, "--input-type=module")
	bridge.Dir = filepath.Join("node", "bridges")
	bridge.Env = append(cleanEnvironment(), "NATS_URL="+server.Host, "NATS_USER="+server.User.Username(), "NATS_PASSWORD="+password, "STEVEDORE_CHANNEL=team")
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
