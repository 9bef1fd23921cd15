package commands

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
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
