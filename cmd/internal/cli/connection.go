package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

// Connection contains the flags for the connection to the bus. They are those of the
// nats CLI.
type Connection struct {
	bus.Config
	// Data is the data directory. It contains the URL of its embedded server.
	Data string
}

// AddFlags adds the connection flags.
func (c *Connection) AddFlags(flags *pflag.FlagSet) { Topic(flags, TopicConnection, c.addFlags) }

func (c *Connection) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Data, "data", DefaultDataDir(), "data `DIR` of the embedded server, which contains its URL")
	flags.StringVarP(&c.Server, "server", "s", "", "NATS server `URL`s (NATS_URL); default: the embedded server")
	flags.StringVar(&c.Context, "context", "", "`NAME` of a context of the nats CLI (NATS_CONTEXT)")
	flags.StringVar(&c.Creds, "creds", "", "credentials `FILE` (NATS_CREDS)")
	flags.StringVar(&c.User, "user", "", "user `NAME` (NATS_USER)")
	flags.StringVar(&c.Password, "password", "", "`PASSWORD` of the user (NATS_PASSWORD)")
	flags.StringVar(&c.Token, "token", "", "`TOKEN` to log in with (NATS_TOKEN)")
	flags.StringVar(&c.NKey, "nkey", "", "nkey seed `FILE` (NATS_NKEY)")
	flags.StringVar(&c.TLSCert, "tlscert", "", "client certificate `FILE` (NATS_CERT)")
	flags.StringVar(&c.TLSKey, "tlskey", "", "client key `FILE` (NATS_KEY)")
	flags.StringVar(&c.TLSCA, "tlsca", "", "certificate authority `FILE` (NATS_CA)")
	flags.StringVar(&c.Domain, "js-domain", "", "JetStream `DOMAIN`; a context can also set it")
	flags.StringVar(&c.APIPrefix, "js-api-prefix", "", "`PREFIX` of JetStream's API, if an account imports it with another prefix than $JS.API")
	flags.StringVar(&c.InboxPrefix, "inbox-prefix", "", "`PREFIX` of inboxes (NATS_INBOX_PREFIX)")
	flags.DurationVar(&c.Timeout, "timeout", 5*time.Second, "`TIME` to wait for the bus (NATS_TIMEOUT)")
	flags.StringVar(&c.Zone, "zone", "", "`ZONE` of this process: workers of the zone are the first to get the calls that it submits to the queue "+bus.DefaultQueue)
	flags.StringVar(&c.Prefix, "prefix", bus.DefaultPrefix, "first `TOKEN` of all subjects")
	flags.IntVar(&c.Replicas, "replicas", 0, "`NUMBER` of replicas of new streams and buckets; default 1")
}

// External reports whether the flags name a server other than the embedded one.
func (c *Connection) External() bool { return c.Server != "" || c.Context != "" }

// Connect connects to the server that the flags name, otherwise to the embedded
// server that runs in the data directory.
func (c *Connection) Connect(ctx context.Context, name string, log zerolog.Logger) (*bus.Bus, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	cfg := c.Config
	cfg.Name, cfg.Log = name, log
	if !c.External() {
		url, err := c.EmbeddedURL()
		if err != nil {
			return nil, err
		}
		cfg.Server = url
	}
	b, err := bus.Connect(ctx, cfg)
	if err != nil && c.Context != "" && strings.Contains(err.Error(), "unknown context") { // the library's error has no type
		return nil, Exit(ExitUsage, "--context: there is no context %q; see nats context ls", c.Context)
	}
	return b, err
}

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
	if c.Timeout <= 0 {
		return Exit(ExitUsage, "--timeout %s: want more than 0s", c.Timeout)
	}
	for _, subject := range []struct{ flag, value string }{{"js-domain", c.Domain}, {"js-api-prefix", c.APIPrefix}} {
		if strings.ContainsAny(subject.value, " \t\r\n*>") {
			return Exit(ExitUsage, "--%s %q: want tokens of a subject", subject.flag, subject.value)
		}
	}
	if c.Replicas < 0 {
		return Exit(ExitUsage, "--replicas %d: want 1 or more, or 0 for the default", c.Replicas)
	}
	for _, file := range []struct{ flag, name string }{
		{"creds", c.Creds}, {"nkey", c.NKey}, {"tlscert", c.TLSCert}, {"tlskey", c.TLSKey}, {"tlsca", c.TLSCA},
	} {
		if file.name == "" {
			continue
		}
		f, err := os.Open(file.name)
		if err != nil {
			return Exit(ExitUsage, "--%s: %w", file.flag, err)
		}
		f.Close()
	}
	return nil
}

// urlFile contains the URL of the embedded server for the other commands. The URL
// contains the credential, so only the owner can read the file.
const urlFile = "server.url"

// DataLocked reports whether a process runs a server in the data directory.
func (c *Connection) DataLocked() (bool, error) { return durable.DirLocked(c.Data) }

// EmbeddedURL returns the URL of the server that runs in the data directory. It contains
// the credential. It uses the file only while a process has locked the directory. After a
// kill, another process may listen on the port of the file and would receive the
// credential.
func (c *Connection) EmbeddedURL() (string, error) {
	locked, err := durable.DirLocked(c.Data)
	if err != nil {
		return "", fmt.Errorf("%w: %w", bus.ErrUnreachable, err)
	}
	data, err := os.ReadFile(filepath.Join(c.Data, urlFile))
	if !locked || errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: no server runs in the data directory %q; start one with \"stevedore up\", or name a server with --server", bus.ErrUnreachable, c.Data)
	}
	if err != nil {
		return "", fmt.Errorf("%w: find the embedded server: %w", bus.ErrUnreachable, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// PublishURL writes the embedded server's URL to a file for Connect. withdraw
// removes the file.
func (c *Connection) PublishURL(url string) (withdraw func() error, err error) {
	name := filepath.Join(c.Data, urlFile)
	if err := durable.WriteFile(name, []byte(url+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("publish the server's URL: %w", err)
	}
	return func() error { return os.Remove(name) }, nil
}
