package commands

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/tools"
)

// A command reports a missing permission at once, and works if it needs only permissions
// that the user has.
func TestMissingPermissions(t *testing.T) {
	t.Parallel()
	permissions := func(publish, subscribe []string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}
	}
	users := []*server.User{{Username: "admin"}}
	for name, p := range map[string]*server.Permissions{
		"no-inbox": permissions([]string{">"}, []string{"mine.>"}),
		"no-api":   permissions([]string{"mine.>"}, []string{"_INBOX.>"}),
		"no-calls": permissions([]string{"$JS.API.>"}, []string{"_INBOX.>"}),
		"caller":   permissions([]string{"$JS.API.STREAM.>", "$JS.API.CONSUMER.>", "$JS.API.DIRECT.>", "stevedore.call.>"}, []string{"_INBOX.>"}),
		"reader":   permissions([]string{"$JS.API.INFO", "$JS.API.STREAM.>"}, []string{"_INBOX.>"}),
		"a-prefix": permissions([]string{">"}, []string{"mine.>"}),
	} {
		users = append(users, &server.User{Username: name, Permissions: p})
	}
	for _, u := range users {
		u.Password = "canary"
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), Users: users})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	b, err := bus.Connect(t.Context(), bus.Config{InProcess: srv, User: "admin", Password: "canary", Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	body, err := bus.Encode(tools.ResultEvent{ID: "c1", Session: "default", Tool: "echo", Outcome: tools.Completed, Result: tools.Result{ForLLM: "there it is"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("default", "c1"), Body: body}); err != nil {
		t.Fatal(err)
	}

	const violation = "permissions violation for "
	for _, test := range []struct {
		user, args string
		exit       int
		want       string // of the error, or of the output
	}{
		{"no-inbox", "tools ls", 1, violation + `subscription to "_INBOX.>": replies arrive there`},
		{"no-inbox", "tools ls", 1, "--inbox-prefix _INBOX_worker"},
		{"no-inbox", "call echo", 1, violation + `subscription to "_INBOX.>": replies arrive there`},
		{"a-prefix", "call echo --id c1 --inbox-prefix mine", 0, "there it is\n"},
		{"a-prefix", "call echo --id c1 --inbox-prefix other", 1, violation + `subscription to "other.>"`},
		{"no-api", "tools ls", 1, violation + `publish to "stevedore.rpc.tools.ls"`},
		{"no-api", "dead ls", 1, violation + `publish to "$JS.API.STREAM.INFO.STEVEDORE_DEAD"`},
		{"no-api", "call echo", 1, violation + `publish to "stevedore.call.default.echo.default.`},
		{"no-api", "dead ls", 1, "Use a credential that has this permission"},
		{"no-calls", "call echo --id c2", 1, violation + `publish to "stevedore.call.default.echo.default.c2"`},
		{"reader", "memory ls --timeout 1s", 1, "nats: permissions violation: this user may not publish to $JS.API.CONSUMER.CREATE.>\nUse a credential"},
		{"caller", "call echo --id c1", 0, "there it is\n"},
		{"caller", "tasks get c1", 1, violation + `publish to "stevedore.rpc.task.default.get"`},
	} {
		var stdout, stderr strings.Builder
		args := append(strings.Fields(test.args), "--server", srv.ClientURL(), "--user", test.user, "--password", "canary", "--log-level", "off")
		exit := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		got := stderr.String()
		if test.exit == 0 {
			got = stdout.String()
		}
		if exit != test.exit || !strings.Contains(got, test.want) || strings.Contains(got, "canary") {
			t.Errorf("%s: stevedore %s: exit %d, %q, want %d, %q", test.user, test.args, exit, got, test.exit, test.want)
		}
	}
}
