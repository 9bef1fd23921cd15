package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// Connection contains the flags for the connection to the bus. They are those of the
// nats CLI.
type Connection struct {
	bus.Config
	// Data is the data directory. It contains the URL of its embedded server.
	Data string

	flags *pflag.FlagSet // of the command
}

// connectionSettings declares the settings of a Connection.
type connectionSettings struct {
	Data        string        `flag:"data" unit:"DIR" help:"data DIR of the embedded server, which contains its URL"`
	Server      string        `flag:"server" short:"s" env:"NATS_URL" unit:"URL" help:"NATS server URLs (NATS_URL); default: the embedded server"`
	Context     string        `flag:"context" env:"NATS_CONTEXT" unit:"NAME" help:"NAME of a context of the nats CLI (NATS_CONTEXT)"`
	Creds       string        `flag:"creds" env:"NATS_CREDS" unit:"FILE" help:"credentials FILE (NATS_CREDS)"`
	User        string        `flag:"user" env:"NATS_USER" unit:"NAME" help:"user NAME (NATS_USER)"`
	Password    string        `flag:"password" env:"NATS_PASSWORD" unit:"PASSWORD" help:"PASSWORD of the user (NATS_PASSWORD)"`
	Token       string        `flag:"token" env:"NATS_TOKEN" unit:"TOKEN" help:"TOKEN to log in with (NATS_TOKEN)"`
	NKey        string        `flag:"nkey" env:"NATS_NKEY" unit:"FILE" help:"nkey seed FILE (NATS_NKEY)"`
	TLSCert     string        `flag:"tlscert" env:"NATS_CERT" unit:"FILE" help:"client certificate FILE (NATS_CERT)"`
	TLSKey      string        `flag:"tlskey" env:"NATS_KEY" unit:"FILE" help:"client key FILE (NATS_KEY)"`
	TLSCA       string        `flag:"tlsca" env:"NATS_CA" unit:"FILE" help:"certificate authority FILE (NATS_CA)"`
	Domain      string        `flag:"js-domain" unit:"DOMAIN" help:"JetStream DOMAIN; a context can also set it"`
	APIPrefix   string        `flag:"js-api-prefix" unit:"PREFIX" help:"PREFIX under which an account imports JetStream's API, if not $JS.API"`
	InboxPrefix string        `flag:"inbox-prefix" env:"NATS_INBOX_PREFIX" unit:"PREFIX" help:"PREFIX of inboxes (NATS_INBOX_PREFIX)"`
	Timeout     time.Duration `flag:"timeout" env:"NATS_TIMEOUT" default:"5s" min:"1ms" unit:"TIME" help:"TIME to wait for the bus (NATS_TIMEOUT); call and agent wait 30s without it"`
	Zone        string        `flag:"zone" unit:"ZONE" help:"ZONE of this process: its workers are the first to get the calls of the zone"`
	Prefix      string        `flag:"prefix" unit:"TOKEN" help:"first TOKEN of all subjects"`
	Replicas    int           `flag:"replicas" min:"0" unit:"NUMBER" help:"NUMBER of replicas of new streams and buckets; 0 means 1"`
}

// AddFlags adds the flags of the connection.
func (c *Connection) AddFlags(flags *pflag.FlagSet) {
	c.Data, c.Prefix, c.flags = DefaultDataDir(), bus.DefaultPrefix, flags
	AddSettingsOf(flags, c, connectionSettings{}, topicConnection)
}

// AddDataFlag adds only the flag of the data directory.
func (c *Connection) AddDataFlag(flags *pflag.FlagSet, what string) {
	c.Data = DefaultDataDir()
	Settings(flags, func(flags *pflag.FlagSet) { flags.StringVar(&c.Data, "data", c.Data, "`DIR` for "+what) })
}

// External reports whether the flags name a server other than the embedded one.
func (c *Connection) External() bool {
	return c.Context != "" || c.Server != "" && !c.hasOwnCredential()
}

// hasOwnCredential reports whether the flags have the credential of the data directory, as the variables
// that "stevedore up --print-env" prints: the server is then the embedded one, also after a restart on
// another port.
func (c *Connection) hasOwnCredential() bool {
	password := c.Password
	if u, err := url.Parse(c.Server); err == nil && u.User != nil {
		password, _ = u.User.Password()
	}
	own := embedded.Credential(c.Data)
	return own != "" && own == password
}

// Connect connects to the server that the flags name, otherwise to the embedded
// server that runs in the data directory.
func (c *Connection) Connect(ctx context.Context, name string, log zerolog.Logger) (*bus.Bus, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	cfg := c.Config
	cfg.Name, cfg.Log, cfg.Away = name, log, c.away()
	if subjects, err := bus.NewSubjects(c.Prefix); err == nil && len(c.StreamBytes) > 0 { // status shows the full names
		cfg.StreamBytes = map[string]int64{}
		for stream, size := range c.StreamBytes {
			cfg.StreamBytes[subjects.ShortName(stream)] = size
		}
	}
	if !c.External() {
		url, err := c.EmbeddedURL()
		if err != nil {
			return nil, err
		}
		cfg.Server, cfg.Dialer = url, embeddedDialer{c}
	}
	b, err := bus.Connect(ctx, cfg)
	if err != nil && c.Context != "" && strings.Contains(err.Error(), "unknown context") { // the library's error has no type
		return nil, Exit(ExitUsage, "--context: there is no context %q; see nats context ls", c.Context)
	}
	return b, err
}

// embeddedDialer dials the embedded server where it listens now: after a restart, that may be another port.
type embeddedDialer struct{ c *Connection }

func (d embeddedDialer) Dial(network, address string) (net.Conn, error) {
	if current, err := d.c.EmbeddedURL(); err == nil { // otherwise it does not run now
		if u, err := url.Parse(current); err == nil {
			address = u.Host
		}
	}
	return net.DialTimeout(network, address, d.c.Config.Timeout)
}

// away is how long a command that waits goes on without a connection: the --timeout, if one is given.
func (c *Connection) away() time.Duration {
	if c.flags != nil && !c.flags.Changed("timeout") {
		return 30 * time.Second
	}
	return c.Timeout
}

// Await is Connect for a command that waits for the bus, at its start as later: while a server restarts, it
// tries again, and says so on stderr.
func (c *Connection) Await(ctx context.Context, name string, log zerolog.Logger, stderr io.Writer) (b *bus.Bus, err error) {
	say := func(what string) {
		fmt.Fprintf(stderr, "stevedore: waiting for the bus, for %s at most (--timeout): %s\n", c.away(), tools.OneLine(what))
	}
	c.Awaiting = func(at string) { say("no connection to " + at) }
	wait, cancel := context.WithTimeout(ctx, c.away())
	defer cancel()
	var last error
	notice := time.Now().Add(bus.Notice)
	sayOnce := sync.OnceFunc(func() { say(last.Error()) })
	err = retry.Do(wait, retry.Pauses(100*time.Millisecond, time.Second, 0), func(err error) bool { return !c.mayReturn(err) },
		func(err error, pause time.Duration) {
			last = err
			if c.away() > bus.Notice && time.Now().Add(pause).After(notice) { // nothing is tried before
				sayOnce()
			}
		}, func() error {
			b, err = c.Connect(wait, name, log)
			return err
		})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && last != nil {
		err = last
	}
	return b, err
}

// mayReturn reports whether a server that Connect does not reach may be one that restarts. One that was
// never there does not.
func (c *Connection) mayReturn(err error) bool {
	if !errors.Is(err, bus.ErrUnreachable) || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, fs.ErrPermission) {
		return false
	}
	if !c.External() {
		return c.HadServer()
	}
	dial, ok := errors.AsType[*net.OpError](err)
	_, unknownHost := errors.AsType[*net.DNSError](err)
	return ok && dial.Op == "dial" && !unknownHost || errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout)
}

// HadServer reports whether a server has run in the data directory, as far as this user may see that, or the service of
// this machine serves root.
func (c *Connection) HadServer() bool { return hadServer(c.Data, serviceDir, os.Geteuid() == 0) }

// CheckData returns an error if there is no data directory.
func (c *Connection) CheckData() error {
	if c.Data == "" {
		return Exit(ExitUsage, "this user has no home directory; name a data directory with --data")
	}
	return nil
}

// Check returns an error if the flags are not valid.
func (c *Connection) Check() error {
	if err := c.CheckData(); err != nil && !c.External() {
		return err
	}
	if c.Zone != "" && !tools.IsToken(bus.ZoneQueue(c.Zone)) {
		return Exit(ExitUsage, "--zone %q: want letters, digits, - and _, at most 50", c.Zone)
	}
	if _, err := bus.NewSubjects(c.Prefix); err != nil {
		return Exit(ExitUsage, "--prefix: %w", err)
	}
	for _, subject := range []struct{ flag, value string }{{"js-domain", c.Domain}, {"js-api-prefix", c.APIPrefix}} {
		if strings.ContainsAny(subject.value, " \t\r\n*>") {
			return Exit(ExitUsage, "--%s %q: want tokens of a subject", subject.flag, subject.value)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return Exit(ExitUsage, "--tlscert and --tlskey: give both, the certificate and its key")
	}
	for _, file := range []struct{ flag, name string }{
		{"creds", c.Creds}, {"nkey", c.NKey}, {"tlscert", c.TLSCert}, {"tlskey", c.TLSKey}, {"tlsca", c.TLSCA},
	} {
		if file.name == "" {
			continue
		}
		data, err := os.ReadFile(file.name)
		if err == nil && file.flag == "tlsca" && !x509.NewCertPool().AppendCertsFromPEM(data) {
			err = fmt.Errorf("%s contains no certificate", file.name)
		}
		if err == nil && (file.flag == "creds" || file.flag == "nkey") {
			if _, seed := nkeys.ParseDecoratedNKey(data); seed != nil {
				err = fmt.Errorf("%s contains no credential: %w", file.name, seed)
			}
		}
		if err == nil && file.flag == "tlskey" {
			_, err = tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		}
		if err != nil {
			return Exit(ExitUsage, "--%s: %w", file.flag, err)
		}
	}
	return nil
}

// URLFile contains the URL of the embedded server for the other commands. The URL
// contains the credential, so only the owner can read the file.
const URLFile = "server.url"

// DataLocked reports whether a process runs a server in the data directory.
func (c *Connection) DataLocked() (bool, error) { return durable.DirLocked(c.Data) }

// ServerDir returns the data directory of the embedded server that the commands use, and whether that runs.
func (c *Connection) ServerDir() (dir string, running bool, err error) {
	return runningDir(c.Data, serviceDir, os.Geteuid() == 0)
}

// EmbeddedURL returns the URL of the server that runs in the data directory. It contains
// the credential. It uses the file only while a process has locked the directory. After a
// kill, another process may listen on the port of the file and would receive the
// credential.
func (c *Connection) EmbeddedURL() (string, error) {
	dir, locked, err := c.ServerDir()
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("%w: only the user %[2]s may read the data directory %[3]q; run this as %[2]s (sudo -u %[2]s), or "+
			"name a server with --server: %[4]w", bus.ErrUnreachable, Owner(c.Data), c.Data, err)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", bus.ErrUnreachable, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, URLFile))
	switch {
	case !locked:
		return "", fmt.Errorf("%w: no server runs in the data directory %q; start one with \"%s\", or name a server with "+
			"--server%s", bus.ErrUnreachable, c.Data, c.Command("up"), ServiceHint())
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: the server in the data directory %q is starting or stopping", bus.ErrUnreachable, dir)
	case err != nil:
		return "", fmt.Errorf("%w: find the embedded server: %w", bus.ErrUnreachable, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// PublishURL writes the embedded server's URL to a file for Connect. withdraw removes the file and
// those beside it, unless another process has written it since, because somebody removed the directory.
func (c *Connection) PublishURL(url string, beside ...string) (withdraw func() error, err error) {
	name := filepath.Join(c.Data, URLFile)
	if err := durable.WriteFile(name, []byte(url+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("publish the server's URL: %w", err)
	}
	return func() (err error) {
		if data, readErr := os.ReadFile(name); readErr == nil && strings.TrimSpace(string(data)) != url {
			return nil
		}
		for _, file := range append(beside, name) {
			if removeErr := os.Remove(file); !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, removeErr)
			}
		}
		return err
	}, nil
}
