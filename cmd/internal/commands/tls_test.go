package commands

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// certificate writes a self-signed certificate for the loopback address with a serial number.
func certificate(t *testing.T, dir string, serial int64) (cert, key string) {
	return certificateUntil(t, dir, serial, time.Unix(1<<33, 0))
}

func certificateUntil(t *testing.T, dir string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Unix(0, 0), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	secretDER, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secretDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(serial, 0), time.Unix(serial, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// The embedded server with a certificate refuses clients without TLS, the process itself
// needs none, and a new certificate is used without a restart.
func TestEmbeddedTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1)
	srv, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Cert: cert, Key: key, NoSync: true, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	b, err := bus.Connect(t.Context(), srv.ClientConfig(bus.Config{Log: bustest.Log(t)}))
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if !strings.HasPrefix(srv.URL(), "tls://") {
		t.Errorf("URL %q", srv.URL())
	}
	for serial := int64(1); serial <= 2; serial++ {
		if serial == 2 {
			certificate(t, dir, serial)
		}
		nc, err := nats.Connect(srv.URL(), nats.RootCAs(cert))
		if err != nil {
			t.Fatalf("certificate %d: %v", serial, err)
		}
		state, err := nc.TLSConnectionState()
		if err != nil || state.PeerCertificates[0].SerialNumber.Int64() != serial {
			t.Errorf("certificate %v, want %d; %v", state.PeerCertificates[0].SerialNumber, serial, err)
		}
		nc.Close()
	}
	if nc, err := nats.Connect(srv.URL()); err == nil {
		nc.Close()
		t.Error("a client trusts the unknown certificate")
	}
}

func TestListensBeyondLoopbackOnlyWithTLS(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is allowed does not start either
	for _, tt := range []struct {
		args string
		want string // of the error; empty if it is allowed
	}{
		{"--listen 0.0.0.0:0", "--listen-cert"},
		{"--listen [::]:0", "--listen-cert"},
		{"--listen 192.0.2.1:4222", "--listen-insecure"},
		{"--listen host.example:4222", "--listen-cert"},
		{"--listen 0.0.0.0:0 --listen-cert x", "belong together"},
		{"--listen 127.0.0.1:0 --listen-cert x --listen-key y", "x"},
	} {
		var stdout, stderr strings.Builder
		args := append([]string{"up", "--console", "off", "--data", t.TempDir(), "--workspace", t.TempDir()}, strings.Fields(tt.args)...)
		code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
		if code == 0 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("up %s: exit code %d, %s; want %q", tt.args, code, &stderr, tt.want)
		}
	}
}

// If a client and a server do not agree about TLS, the error says which flag helps.
func TestTLSRemedies(t *testing.T) {
	slow.Test(t)
	cert, key := certificate(t, t.TempDir(), 1)
	address := func(cfg embedded.Config) string {
		cfg.Dir, cfg.Listen, cfg.NoSync, cfg.Log = t.TempDir(), "127.0.0.1:0", true, bustest.Log(t)
		srv, err := embedded.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { srv.Close() })
		_, host, _ := strings.Cut(srv.URL(), "@")
		_, port, _ := strings.Cut(host, ":")
		return port
	}
	encrypted, plain := address(embedded.Config{Cert: cert, Key: key}), address(embedded.Config{})
	old, oldKey := certificateUntil(t, t.TempDir(), 2, time.Unix(1, 0))
	expired := address(embedded.Config{Cert: old, Key: oldKey})
	tlsConfig, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: cert, KeyFile: key, CaFile: cert, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	verifying, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, TLSConfig: tlsConfig, TLSVerify: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	verifying.Start()
	t.Cleanup(verifying.Shutdown)
	mutual := " --tlsca " + cert + " --server tls://" + verifying.Addr().String()
	other, otherKey := certificate(t, t.TempDir(), 3)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	host := web.Listener.Addr().String()
	for _, tt := range []struct{ args, want string }{
		{"--server tls://127.0.0.1:" + encrypted, "no encrypted connection to tls://127.0.0.1:" + encrypted},
		{"--server tls://127.0.0.1:" + encrypted, "with --tlsca FILE"},
		{"--server tls://localhost:" + encrypted + " --tlsca " + cert, "in --server: 127.0.0.1."},
		{"--server tls://127.0.0.1:" + plain, "begin its URL with nats://"},
		{"--server tls://127.0.0.1:" + encrypted + " --tlscert " + cert, "give both"},
		{"--server tls://127.0.0.1:" + encrypted + ",nats://127.0.0.1:1", "with --tlsca FILE"},
		{"--server tls://127.0.0.1:" + encrypted + " --tlsca " + other, "with --tlsca FILE, not " + other},
		{"--server tls://127.0.0.1:" + expired + " --tlsca " + old, "Renew the server's certificate"},
		{"--server nats://127.0.0.1:" + plain + " --tlsca " + cert, "leave --tlsca and --tlscert out"},
		{mutual, "no encrypted connection to tls://"},
		{mutual, "give it with --tlscert and --tlskey."},
		{mutual + " --tlscert " + other + " --tlskey " + otherKey, "give it with --tlscert and --tlskey, not " + other},
		{mutual + " --tlscert " + cert + " --tlskey " + otherKey, "--tlskey: tls: private key does not match"},
		{"--tlsca " + key, key + " contains no certificate"},
		{"--server nats://" + host, "does not greet as a NATS server listens at nats://" + host},
		{"--server http://" + host, "client port of a NATS server"},
	} {
		for _, command := range []string{"status", "doctor"} {
			var stdout, stderr strings.Builder
			code := run(t.Context(), append([]string{command}, strings.Fields(tt.args+" --timeout 2s")...), strings.NewReader(""), &stdout, &stderr)
			if text := stdout.String() + stderr.String(); code == 0 || !strings.Contains(text, tt.want) || strings.Contains(strings.ToLower(text), "start the server") {
				t.Errorf("%s %s: exit code %d, %s; want %q", command, tt.args, code, text, tt.want)
			}
		}
	}
}
