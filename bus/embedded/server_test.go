package embedded_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/integration/modes"
)

// The credential is created once, is readable only for the owner, and is part of the URL.
func TestServerCredential(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	s := bustest.Start(t, embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	first := s.URL()
	info, err := os.Stat(filepath.Join(dir, "credential"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("credential: %v, %v", info, err)
	}
	b, err := bus.Connect(t.Context(), bus.Config{Server: first})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	s.Close()

	again := bustest.Start(t, embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	if password(t, again.URL()) != password(t, first) {
		t.Error("a restart created another credential")
	}
	if n, err := filepath.Glob(filepath.Join(dir, "credential*")); err != nil || len(n) != 1 {
		t.Errorf("files %q, %v", n, err)
	}
}

func password(t *testing.T, serverURL string) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := u.User.Password()
	if len(p) < 20 {
		t.Fatalf("password %q", p)
	}
	return p
}

func TestServerRejectsOthers(t *testing.T) {
	s := bustest.Listen(t)
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []*url.Userinfo{nil, url.UserPassword("stevedore", "wrong"), url.UserPassword("other", password(t, s.URL())), url.User(password(t, s.URL()))} {
		u.User = user
		_, err := bus.Connect(t.Context(), bus.Config{Server: u.String()})
		if !errors.Is(err, bus.ErrUnreachable) || !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("as %v: %v", user, err)
		}
		if err != nil && strings.Contains(err.Error(), "none was given") != (user == nil) {
			t.Errorf("as %v: %v", user, err)
		}
		if err != nil && (strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), password(t, s.URL()))) {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

func TestServerListen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	used := l.Addr().String()
	for listen, want := range map[string]string{
		used:              used,
		"127.0.0.1":       "HOST:PORT",
		"127.0.0.1:70000": "HOST:PORT",
		"127.0.0.1:-1":    "HOST:PORT",
		"127.0.0.1:http":  "HOST:PORT",
	} {
		s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: listen, NoSync: true})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), listen) {
			t.Errorf("listen %q: %v", listen, err)
		}
		if listen == used && !errors.Is(err, embedded.ErrAddressInUse) {
			t.Errorf("the error does not say that the port is in use: %v", err)
		}
	}
	s := bustest.Start(t, embedded.Config{Dir: t.TempDir(), Listen: ":0", NoSync: true})
	if u, err := url.Parse(s.URL()); err != nil || u.Hostname() != "127.0.0.1" || u.Port() == "0" {
		t.Errorf("URL %s, %v", s.URL(), err)
	}
}

func TestServerRestartKeepsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := bustest.Start(t, embedded.Config{Dir: dir})
	b := bustest.Connect(t, s, bus.Config{})
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte(`{"id":"c"}`)}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	s.Close()
	b = bustest.Connect(t, bustest.Start(t, embedded.Config{Dir: dir}), bus.Config{})
	if body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("s", "c"))); !ok || err != nil || string(body) != `{"id":"c"}` {
		t.Errorf("got %q, %v, %v", body, ok, err)
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte(`{}`)}); !errors.Is(err, bus.ErrSubjectExists) {
		t.Errorf("a second result: %v", err)
	}
}

func TestServerDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "credential"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "credential"), make([]byte, 27), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"":                         "no data directory",
		file:                       "not a directory",
		filepath.Join(file, "sub"): "not a directory",
		empty:                      "remove the file",
		damaged:                    "remove the file",
	} {
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("directory %q: %v, want %q", dir, err, want)
		}
	}
}

// A read-only directory gives an error, at the first start and later.
func TestServerReadOnlyDirectory(t *testing.T) {
	modes.Obey(t)
	fresh, used := t.TempDir(), t.TempDir()
	bustest.Start(t, embedded.Config{Dir: used, NoSync: true}).Close()
	for _, dir := range []string{fresh, used} {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		s, err := embedded.Start(embedded.Config{Dir: dir, NoSync: true})
		if err == nil {
			s.Close()
		}
		if err == nil && dir == fresh || err != nil && !strings.Contains(err.Error(), dir) { // what is below used may still be writable
			t.Errorf("error %v", err)
		}
	}
}
