package bus

import (
	"cmp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Config says how to reach a NATS server. The zero value connects to
// nats://127.0.0.1:4222 without a credential.
type Config struct {
	// Server is one URL or several, separated by commas. A credential may stand
	// in it.
	Server string
	// Context names a context of the nats CLI; it is used instead of Server.
	Context string
	// Domain is the JetStream domain to work in, APIPrefix another prefix of its
	// API than $JS.API, where an account imports it; the prefix counts if both
	// are given. A context brings its own; what is given here wins.
	Domain, APIPrefix string
	// Creds is a credentials file, NKey a seed file.
	Creds, NKey string
	// User and Password, or Token, log in where the server wants that.
	User, Password, Token string
	// TLSCert and TLSKey are the client's certificate, TLSCA the authority that
	// signed the server's: PEM files.
	TLSCert, TLSKey, TLSCA string
	// Timeout bounds connecting and each request. Default 5 s. Making and changing
	// streams, buckets and consumers may take up to 30 s even if it is less.
	Timeout time.Duration
	// Name is shown in the server's list of connections.
	Name string
	// Prefix is the first token of all subjects. Default "stevedore".
	Prefix string
	// InboxPrefix replaces _INBOX where the server's permissions ask for it.
	InboxPrefix string
	// Replicas of streams and buckets that are created. Default 1. What exists
	// is compared with it, and changed by an update, only if it is given.
	Replicas int
	// MaxBytes bounds each stream that is created; results may have four times
	// as much, because they stay. Default 1 GiB, or less where the disk is
	// small. What exists is compared with it only if it is given.
	MaxBytes int64
	// Lease is how long a worker may be silent before its calls go to another
	// one. It is a setting of the consumers, fixed when they are created.
	// Default 30 s.
	Lease time.Duration
	// Log takes what happens to the connection. The zero value logs nothing.
	Log zerolog.Logger
	// InProcess connects to an embedded server without a socket.
	InProcess nats.InProcessConnProvider
	// DiskSpace is how many bytes the server may store, if it is known; it limits
	// the default of MaxBytes. embedded.Server sets it.
	DiskSpace int64
	// Dialer replaces the way a connection is made, for tests.
	Dialer nats.CustomDialer
}

// hasCredential reports whether c says who connects.
func (c Config) hasCredential() bool {
	return cmp.Or(c.Creds, c.NKey, c.User, c.Password, c.Token, c.TLSCert) != "" || strings.Contains(c.Server, "@")
}

func (c Config) withDefaults() Config {
	if c.Server == "" {
		c.Server = nats.DefaultURL
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Lease <= 0 {
		c.Lease = 30 * time.Second
	}
	return c
}
