package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The commands in the advice have the flags of the reader: certificates and a key, or the context of the nats
// command. Pasted in the state that produced them, they work.
func TestRemediesHaveTheLoginOfTheReader(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := newCredentials(t)
	srv := run(t, &server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		TLS: true, TLSVerify: true, TLSConfig: c.tls(), Nkeys: []*server.NkeyUser{{Nkey: c.public}},
	})
	url := fmt.Sprintf("tls://127.0.0.1:%d", port(t, srv))
	home, bin := t.TempDir(), t.TempDir()
	contexts := filepath.Join(home, "nats", "context")
	body, err := json.Marshal(map[string]string{
		"url": url, "nkey": c.file("user.nk"), "ca": c.file("ca.pem"), "cert": c.file("client.pem"), "key": c.file("client.key"),
	})
	for _, err := range []error{
		err, os.Symlink(workerProgram, filepath.Join(bin, "stevedore")), os.MkdirAll(contexts, 0o700),
		os.WriteFile(filepath.Join(contexts, "lab.json"), body, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := nats.NkeyOptionFromSeed(c.file("user.nk"))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, key, nats.RootCAs(c.file("ca.pem")), nats.ClientCert(c.file("client.pem"), c.file("client.key")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	shell := func(command string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "exec "+command)
		cmd.Env = append(cleanEnvironment(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+home)
		cmd.Dir = home
		return cmd
	}
	for _, login := range []string{
		"--server " + url + " --nkey " + c.file("user.nk") + " --tlsca " + c.file("ca.pem") + " --tlscert " + c.file("client.pem") + " --tlskey " + c.file("client.key"),
		"--context lab",
	} {
		if out, err := shell("stevedore provision " + login).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		advice := func(code string) (command string, found bool) {
			t.Helper()
			out, err := shell("stevedore status --json " + login).Output()
			var s status.Status
			if jsonErr := json.Unmarshal(out, &s); jsonErr != nil {
				t.Fatalf("status: %v, %s", err, out)
			}
			for _, p := range s.Problems {
				if m := pasted.FindStringSubmatch(p.Advice); p.Code == code && m != nil {
					return m[1], true
				}
			}
			return "", false
		}
		gone := func(code string) {
			t.Helper()
			bustest.WaitUntil(t, code+" to be gone", func() bool { _, found := advice(code); return !found })
		}
		command, _ := advice(status.NoWorker)
		serve := shell(command)
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		gone(status.NoWorker)
		if err := serve.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		_ = serve.Wait()
		if err := js.DeleteStream(t.Context(), "STEVEDORE_DEAD"); err != nil {
			t.Fatal(err)
		}
		command, _ = advice(status.StreamMissing)
		if out, err := shell(command).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
		gone(status.StreamMissing)
	}
}
