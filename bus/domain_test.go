package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

func startDomain(t *testing.T, domain string, opts server.Options) *server.Server {
	t.Helper()
	opts.ServerName, opts.Host, opts.Port, opts.NoSigs, opts.NoLog = domain, "127.0.0.1", -1, true, true
	opts.JetStream, opts.JetStreamDomain, opts.StoreDir = true, domain, t.TempDir()
	s, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(bustest.Timeout) {
		t.Fatal("a server does not start")
	}
	return s
}

// A client of a leaf node uses the JetStream of the hub, if its configuration or context
// names the hub's domain or API prefix.
func TestDomain(t *testing.T) {
	port := bustest.FreePort(t) // the leaf needs it
	remote := &url.URL{Scheme: "nats-leaf", Host: fmt.Sprint("127.0.0.1:", port)}
	hub := startDomain(t, "hub", server.Options{LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: port}})
	s := startDomain(t, "leaf", server.Options{LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}}})
	bustest.WaitUntil(t, "the leaf to connect", func() bool { return hub.NumLeafNodes() > 0 })
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	contexts := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(contexts, 0o700); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(map[string]string{"url": s.ClientURL(), "jetstream_domain": "hub"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(contexts, "hub.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	const max = 64 << 20
	for name, cfg := range map[string]bus.Config{
		"domain":  {Server: s.ClientURL(), Domain: "hub", MaxBytes: max},
		"prefix":  {Server: s.ClientURL(), APIPrefix: "$JS.hub.API.", MaxBytes: max},
		"context": {Context: "hub", MaxBytes: max},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := bus.Connect(t.Context(), cfg)
			for deadline := time.Now().Add(bustest.Timeout); err != nil && time.Now().Before(deadline); b, err = bus.Connect(t.Context(), cfg) {
				time.Sleep(5 * time.Millisecond) // the leaf does not know the hub's subjects yet
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
				t.Fatal(err)
			}
			subject := bustest.NewCall(b, "q", name)
			if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte("{}"), Key: name}); err != nil {
				t.Fatal(err)
			}
			seen := ""
			for m, err := range b.Read(t.Context(), bus.Calls, bus.Query{Subject: subject}) {
				if err != nil {
					t.Fatal(err)
				}
				seen = m.Subject
			}
			if seen != subject {
				t.Errorf("read %q", seen)
			}
			ctx, stop := context.WithTimeout(t.Context(), bustest.Timeout)
			defer stop()
			taken := ""
			err = consume.Run(ctx, b, b.WorkerConsumer("q"), consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
				taken = d.Subject
				stop()
				return nil
			})
			if err != nil || taken != subject {
				t.Errorf("took %q, %v", taken, err)
			}
		})
	}
	own, err := s.Jsz(&server.JSzOptions{})
	if err != nil || own.Streams != 0 {
		t.Errorf("the leaf has %d streams of its own, %v", own.Streams, err)
	}
}
