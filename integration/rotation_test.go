package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// credentials are the files of a server and of its clients. Each rotate replaces all of
// them with new ones, which nobody accepts who knows only the old ones.
type credentials struct {
	t   *testing.T
	dir string
	user
}

type user struct{ public, seed string }

func newCredentials(t *testing.T) *credentials {
	c := &credentials{t: t, dir: t.TempDir()}
	c.rotate()
	return c
}

func (c *credentials) file(name string) string { return filepath.Join(c.dir, name) }

func (c *credentials) rotate() {
	c.t.Helper()
	authority, authorityKey := c.certificate("ca", nil, nil)
	c.certificate("server", authority, authorityKey)
	c.certificate("client", authority, authorityKey)
	c.user = newUser(c.t)
	c.write("user.nk", []byte(c.seed))
}

// write replaces a file at once, as a careful operator does.
func (c *credentials) write(name string, text []byte) {
	c.t.Helper()
	if err := os.WriteFile(c.file(name)+".new", text, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(c.file(name)+".new", c.file(name)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *credentials) certificate(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: parent == nil,
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		c.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
	c.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return made, key
}

func newUser(t *testing.T) user {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return user{public, string(seed)}
}

// tls returns the TLS configuration of the server, which demands a certificate.
func (c *credentials) tls() *tls.Config {
	c.t.Helper()
	cfg, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: c.file("server.pem"), KeyFile: c.file("server.key"), CaFile: c.file("ca.pem"), Verify: true})
	if err != nil {
		c.t.Fatal(err)
	}
	return cfg
}

func run(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(testTimeout) {
		t.Fatal("the server does not start")
	}
	return srv
}

func port(t *testing.T, srv *server.Server) int {
	t.Helper()
	_, text, err := net.SplitHostPort(srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// call asks the worker until it answers: it may be reconnecting.
func call(t *testing.T, url string, opts ...nats.Option) {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(20 * time.Millisecond) {
		m, err := nc.Request("stevedore.rpc.call.default.list_dir", []byte(`{"args":{"path":"."}}`), testTimeout)
		if err == nil && (plain{t, nc}).decode(m.Data).text("outcome") == "completed" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the worker does not answer: %v", err)
		}
	}
}

// The worker reads its nkey, its certificate and the authority at each connect, so that an
// operator can replace all of them without a restart of the worker: before the server
// restarts, or before it loads its new configuration.
func TestRotateKeyAndCertificates(t *testing.T) {
	t.Parallel()
	c := newCredentials(t)
	opts := func(port int, dir string) *server.Options {
		return &server.Options{Host: "127.0.0.1", NoSigs: true, NoLog: true, JetStream: true, Port: port, StoreDir: dir, TLS: true, TLSVerify: true, TLSConfig: c.tls(), Nkeys: []*server.NkeyUser{{Nkey: c.public}}}
	}
	dir := t.TempDir()
	srv := run(t, opts(-1, dir))
	number := port(t, srv)
	url := fmt.Sprintf("tls://127.0.0.1:%d", number)
	login := []string{"--server", url, "--nkey", c.file("user.nk"), "--tlsca", c.file("ca.pem"), "--tlscert", c.file("client.pem"), "--tlskey", c.file("client.key")}
	client := func() {
		t.Helper()
		key, err := nats.NkeyOptionFromSeed(c.file("user.nk"))
		if err != nil {
			t.Fatal(err)
		}
		call(t, url, key, nats.RootCAs(c.file("ca.pem")), nats.ClientCert(c.file("client.pem"), c.file("client.key")))
	}
	if out := worker(t, append([]string{"provision"}, login...)...); out.code != 0 {
		t.Fatal(out.stderr)
	}
	start(t, append([]string{"serve", "--workspace", t.TempDir(), "--data", t.TempDir()}, login...)...)
	client()

	c.rotate()
	srv.Shutdown()
	srv.WaitForShutdown()
	srv = run(t, opts(number, dir))
	client()

	c.rotate()
	if err := srv.ReloadOptions(opts(number, dir)); err != nil {
		t.Fatal(err)
	}
	client()
}

// The worker reads its credentials file at each connect.
func TestRotateCredentialsFile(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := newCredentials(t)
	operator, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	system, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	accountKey, systemKey := public(t, account), public(t, system)
	accountClaims := jwt.NewAccountClaims(accountKey)
	accountClaims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1}
	accountJWT, err := accountClaims.Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	systemJWT, err := jwt.NewAccountClaims(systemKey).Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	for key, token := range map[string]string{accountKey: accountJWT, systemKey: systemJWT} {
		if err := resolver.Store(key, token); err != nil {
			t.Fatal(err)
		}
	}
	var expires time.Duration
	issue := func() { // writes a new user to the file
		t.Helper()
		c.user = newUser(t)
		claims := jwt.NewUserClaims(c.public)
		if expires > 0 {
			claims.Expires = time.Now().Add(expires).Unix()
		}
		token, err := claims.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(token, []byte(c.seed))
		if err != nil {
			t.Fatal(err)
		}
		c.write("user.creds", text)
	}
	issue()
	srv := run(t, &server.Options{
		Host: "127.0.0.1", NoSigs: true, NoLog: true, JetStream: true, Port: -1, StoreDir: t.TempDir(),
		TrustedKeys: []string{public(t, operator)}, AccountResolver: resolver, SystemAccount: systemKey,
	})
	login := []string{"--server", srv.ClientURL(), "--creds", c.file("user.creds")}
	if out := worker(t, append([]string{"provision"}, login...)...); out.code != 0 {
		t.Fatal(out.stderr)
	}
	serve := append([]string{"serve", "--workspace", t.TempDir(), "--data", t.TempDir()}, login...)
	p, err := launch(serve...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	call(t, srv.ClientURL(), nats.UserCredentials(c.file("user.creds")))

	old := c.public
	issue()
	revoke := func(key string) { // disconnects the worker
		t.Helper()
		accountClaims.Revoke(key)
		revoked, err := accountClaims.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := jwt.DecodeAccountClaims(revoked)
		if err != nil {
			t.Fatal(err)
		}
		acc, err := srv.LookupAccount(accountKey)
		if err != nil {
			t.Fatal(err)
		}
		srv.UpdateAccountClaims(acc, decoded)
	}
	revoke(old)
	call(t, srv.ClientURL(), nats.UserCredentials(c.file("user.creds")))

	// Without a new one, the worker ends, and says why, as each command does; also if it has expired.
	const why = "was revoked, or has expired: replace the file"
	revoke(c.public)
	for range 2 {
		select {
		case <-p.exited:
		case <-time.After(testTimeout):
			t.Fatal("the worker goes on without a credential")
		}
		if !strings.Contains(p.stderr.String(), why) {
			t.Errorf("the worker says %s", p.stderr)
		}
		for _, command := range []string{"status", "doctor"} {
			if out := worker(t, append([]string{command}, login...)...); out.code == 0 || !strings.Contains(out.stdout+out.stderr, why) {
				t.Errorf("%s: %+v", command, out)
			}
		}
		if expires > 0 {
			break
		}
		expires = 3 * time.Second
		issue()
		if p, err = launch(serve...); err != nil {
			t.Fatal(err)
		}
	}
}

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}
