package commands

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// The command that a text recommends has the reader's login, unless the environment or the settings file says
// it, and never a secret. It works when it is pasted; a secret of the command line must be typed again.
func TestRemediesHaveTheLogin(t *testing.T) {
	const secret = "canary"
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 40,
		Users: []*server.User{{Username: "admin", Password: secret}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	host := srv.Addr().String()
	login := "nats://admin:" + secret + "@" + host
	file := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	whole, part := file("whole.yaml", "server: "+login+"\n"), file("part.yaml", "password: "+secret+"\nuser: admin\n")
	for _, tt := range []struct {
		args, want string
		env        []string
	}{
		{"--server " + login, "--server nats://xxxxx@" + host, nil},
		{"--server admin:" + secret + "@" + host, "--server nats://xxxxx@" + host, nil},
		{"--server " + login + "," + login, "--server nats://xxxxx@" + host + ",nats://xxxxx@" + host, nil},
		{"--server nats://" + host + " --user admin --password " + secret, "--server nats://" + host + " --user admin --password xxxxx", nil},
		{"", "", []string{"NATS_URL", login}},
		{"", "", []string{"STEVEDORE_SERVER", login}},
		{"--server nats://" + host, "--server nats://" + host, []string{"NATS_USER", "admin", "NATS_PASSWORD", secret}},
		{"--config " + whole, "--config " + whole, nil},
		{"--config " + part + " --server nats://" + host, "--server nats://" + host + " --config " + part, nil},
		{"", "", []string{"STEVEDORE_CONFIG", whole}},
	} {
		t.Run("", func(t *testing.T) {
			t.Setenv("STEVEDORE_PREFIX", strings.ToLower(rand.Text())) // nothing exists
			for i := 0; i < len(tt.env); i += 2 {
				t.Setenv(tt.env[i], tt.env[i+1])
			}
			try := func(args string) (code int, text string) {
				var out strings.Builder
				code = run(t.Context(), strings.Fields(args), strings.NewReader(""), &out, &out)
				return code, out.String()
			}
			_, text := try("status " + tt.args)
			m := regexp.MustCompile(`(?m): stevedore (provision.*)$`).FindStringSubmatch(text)
			if m == nil || m[1] != strings.TrimSpace("provision "+tt.want) {
				t.Fatalf("status %s: %s; want the arguments %q", tt.args, text, tt.want)
			}
			if strings.Contains(text, secret) {
				t.Errorf("the text contains the password: %s", text)
			}
			if code, text := try(m[1]); code != 0 && !strings.Contains(m[1], "xxxxx") {
				t.Errorf("%s: exit code %d, %s", m[1], code, text)
			}
		})
	}
}

// What a login may not do is recommended with the login of an operator, if its key lies beside.
func TestRemediesOfOtherRoles(t *testing.T) {
	for _, role := range []string{"worker", "console", "readonly", "operator"} {
		c := cli.Connection{Config: bus.Config{Server: "nats://h:1", NKey: "d/red-" + role + ".nk", InboxPrefix: "_INBOX_" + role, Prefix: bus.DefaultPrefix}}
		want := "stevedore provision --update --server nats://h:1 --nkey d/red-operator.nk"
		if role == "operator" {
			want += " --inbox-prefix _INBOX_operator" // its own
		}
		if got := c.Command("provision", "--update"); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
		if got := c.Command("status"); !strings.Contains(got, role+".nk --inbox-prefix _INBOX_"+role) {
			t.Errorf("%s: %s", role, got)
		}
		for command, may := range map[string]string{
			"serve": "worker operator", "channels rm hook": "worker operator", "artifacts sweep": "worker operator", "artifacts rm a": "worker console operator",
			"sessions rm s": "worker console operator", "call message": "worker console operator", "artifacts ls": "worker console readonly operator",
		} {
			want := role + ".nk --inbox-prefix _INBOX_" + role
			if !slices.Contains(strings.Fields(may), role) {
				if want = "operator.nk"; command == "serve" {
					want = "worker.nk --inbox-prefix _INBOX_worker"
				}
			}
			if got := c.Command(strings.Fields(command)...); !strings.HasSuffix(got, "/red-"+want) {
				t.Errorf("%s: %s, want %s", role, got, want)
			}
		}
	}
}

// A key in a settings file does not hide that of the operator.
func TestRemediesOfARoleInASettingsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(file, []byte("server: nats://127.0.0.1:1\nnkey: d/red-worker.nk\ninbox-prefix: _INBOX_worker\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var c cli.Connection
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags)
	flags.String("config", "", "")
	if err := cli.FromFile(flags, file, cli.Names{Settings: []string{"server", "nkey", "inbox-prefix"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Command("provision"), "stevedore provision --nkey d/red-operator.nk --config "+file; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A URL, a credential and a version of the server that do not fit are named, with what to give instead.
func TestUnfitServers(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, Websocket: server.WebsocketOpts{Host: "127.0.0.1", Port: -1, NoTLS: true}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(bustest.Timeout) {
		t.Fatal("the server does not start")
	}
	plain := srv.Addr().String()
	old, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { old.Close() })
	go func() {
		for {
			c, err := old.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, `INFO {"server_id":"x","version":"2.10.22","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
			for lines := bufio.NewScanner(c); lines.Scan(); {
				if lines.Text() == "PING" {
					fmt.Fprint(c, "PONG\r\n")
				}
			}
		}
	}()
	garbage := filepath.Join(t.TempDir(), "garbage.creds")
	if err := os.WriteFile(garbage, []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"status --server ws://" + plain:                                     "does not speak WebSocket\nGive --server the client port of a NATS server, by default nats://HOST:4222, or ws://HOST:PORT",
		"status --timeout 1s --server " + srv.WebsocketURL()[len("ws://"):]: "or ws://HOST:PORT for that of its block websocket",
		"status --server wss://" + plain:                                    "begin its URL with nats:// (ws:// for WebSocket)",
		"status --server nats://" + old.Addr().String():                     "version 2.10.22: the server is too old; Stevedore needs nats-server 2.14 or newer\nUpgrade the NATS server",
		"status --server nats://" + plain + " --creds " + garbage:           "--creds: " + garbage + " contains no credential",
		"status --server nats://" + plain + " --nkey " + garbage:            "--nkey: " + garbage + " contains no credential",
		"provision --server-config --help":                                  "--server-config needs a value; see stevedore provision --help",
		"provision --server-config x --tenant a,b,--help --client -h":       "--client needs a value; see stevedore provision --help",
	} {
		t.Chdir(t.TempDir())
		var out strings.Builder
		if code := run(t.Context(), strings.Fields(args), strings.NewReader(""), &out, &out); code == 0 || !strings.Contains(out.String(), want) {
			t.Errorf("stevedore %s: exit code %d, %s; want %q", args, code, out.String(), want)
		}
		if made, _ := os.ReadDir("."); len(made) > 0 {
			t.Errorf("stevedore %s made %s", args, made[0])
		}
	}
}

// provision does not say of a sealed stream that it has the expected settings.
func TestProvisionNamesWhatTheServerDoesNotTakeBack(t *testing.T) {
	t.Parallel()
	srv := bustest.Listen(t)
	b := bustest.Connect(t, srv, bus.Config{Log: bustest.Log(t)})
	tasks, err := b.JetStream().Stream(t.Context(), b.BucketStream(bus.TasksBucket))
	if err != nil {
		t.Fatal(err)
	}
	config := tasks.CachedInfo().Config
	config.Sealed = true
	if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := run(t.Context(), []string{"provision", "--server", srv.URL()}, strings.NewReader(""), &out, &out); code != cli.ExitFailed ||
		!strings.Contains(out.String(), config.Name+" is sealed") || !strings.Contains(out.String(), "stevedore backup") {
		t.Errorf("exit code %d, %s", code, out.String())
	}
}
