package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

// A tenant starts again if its credential changes, and a file that is too large is refused unread.
func TestTenantFiles(t *testing.T) {
	dir := t.TempDir()
	read := func(credential string) tenantFiles {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "red.nk"), []byte(credential), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := readTenantFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		return all["red"]
	}
	one, other := read("SU1"), read("SU22")
	if one == other || one.problem+other.problem != "" {
		t.Errorf("the files are %+v and %+v", one, other)
	}
	if got := read(strings.Repeat("x", maxTenantFile+1)).problem; !strings.Contains(got, "more than 65536 bytes") {
		t.Errorf("a large credential: %q", got)
	}
}

// A tenant uses the credential that its settings name.
func TestTenantNamesItsCredential(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "red.yaml"), []byte("nkey: /keys/red.nk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := readTenantFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := all["red"].read(pflag.NewFlagSet("", pflag.ContinueOnError))
	if err != nil || o.Connection.NKey != "/keys/red.nk" {
		t.Errorf("connection %+v, %v", o, err)
	}
}

// A tenant without a channel leaves notifications to others, and so does one with no-notify.
func TestTenantLeavesNotifications(t *testing.T) {
	dir := t.TempDir()
	for settings, want := range map[string]bool{"": true, "channel: log=file:x\n": false, "channel: log=file:x\nno-notify: true\n": true,
		"default-channel: ops\n": false} {
		if err := os.WriteFile(filepath.Join(dir, "red.yaml"), []byte("nkey: /keys/red.nk\n"+settings), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := readTenantFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := all["red"].read(pflag.NewFlagSet("", pflag.ContinueOnError))
		if err != nil || o.NoNotify != want {
			t.Errorf("settings %q: %+v, %v; want no-notify %v", settings, o, err, want)
		}
		if err := o.checkTenant(); strings.Contains(settings, "default-channel") && err != nil && strings.Contains(err.Error(), "default-channel") {
			t.Errorf("a channel that another process serves: %v", err)
		}
	}
}

// A tenant whose files come back while its last calls still run starts again.
func TestTenantComesBackBeforeItHasStopped(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "red.nk")
	f := &fleet{options: &Options{}, flags: pflag.NewFlagSet("", pflag.ContinueOnError), dir: dir, log: zerolog.Nop(), starting: make(chan struct{}, 1), tenants: map[string]*tenant{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	scan := func() {
		t.Helper()
		if err := f.scan(ctx); err != nil {
			t.Fatal(err)
		}
	}
	write := func() {
		t.Helper()
		if err := os.WriteFile(file, []byte("no seed\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	files, err := readTenantFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	old := &tenant{fleet: f, name: "red", files: files["red"], stop: func() {}, tried: make(chan struct{}), ended: make(chan struct{})}
	f.tenants["red"] = old
	scan()
	if old.stopping || f.tenants["red"] != old {
		t.Fatal("a tenant whose files stay was stopped")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	scan()
	write()
	scan()
	if f.tenants["red"] != old {
		t.Fatal("the tenant runs twice")
	}
	close(old.ended)
	scan()
	again := f.tenants["red"]
	if again == nil || again == old {
		t.Fatal("the tenant does not start again")
	}
	stop()
	<-again.ended
}
