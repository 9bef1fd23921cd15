package bus

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Config describes how to connect to a NATS server. The zero value connects to
// nats://127.0.0.1:4222 without a credential.
type Config struct {
	// Server is one URL or several, separated by commas. A URL may contain a
	// credential.
	Server string
	// Context names a context of the nats CLI; it is used instead of Server.
	Context string
	// Domain is the JetStream domain. APIPrefix replaces $JS.API if an account
	// imports the API under another prefix; it takes precedence over Domain. Both
	// take precedence over those of Context.
	Domain, APIPrefix string
	// Creds is a credentials file, NKey a seed file.
	Creds, NKey string
	// User and Password, or Token, are credentials.
	User, Password, Token string
	// TLSCert and TLSKey are the client's certificate, TLSCA the authority that
	// signed the server's: PEM files.
	TLSCert, TLSKey, TLSCA string
	// Timeout limits connecting and each request. Default 5 s. Requests that create or
	// change streams, buckets and consumers may take up to 30 s.
	Timeout time.Duration
	// Away is how long the connection may be down until WithConnection gives up. A restart of the
	// server and most failovers take less than the default of 30 s.
	Away time.Duration
	// Awaiting, if not nil, is called when the connection has been down for Notice; at is the
	// address of the server, without secrets.
	Awaiting func(at string)
	// Name identifies the connection in the list of the server.
	Name string
	// Prefix is the first token of all subjects. Default "stevedore".
	Prefix string
	// InboxPrefix replaces _INBOX if the permissions of the user require it.
	InboxPrefix string
	// Replicas is the number of replicas of new streams and buckets. Default 1. If it
	// is 0, Provision does not compare or change that of existing ones.
	Replicas int
	// MaxBytes limits the size of each new stream; the results stream may be four times
	// as large, because results stay for days. Default 1 GiB, or less on a small disk.
	// If it is 0, Provision does not compare or change that of existing streams.
	MaxBytes int64
	// StreamBytes overrides the size of single streams, by their name without the prefix
	// in lower case, such as "results". An existing stream gets its size by an update.
	StreamBytes map[string]int64
	// OnDemand lets Provision create only the streams and buckets that every call needs, if the
	// stream of calls does not exist. Bus creates the others at their first use.
	OnDemand bool
	// ResultsTTL is the age at which the results stream removes records. Default 7 days;
	// if it is 0, Provision does not compare or change that of an existing stream.
	ResultsTTL time.Duration
	// AnyFormat lets Connect connect to a bus whose streams have another format. Programs that move
	// or copy them set it. Otherwise the error is a *jsapi.FormatError.
	AnyFormat bool
	// Zone, if not empty, is where this process is. Calls that it publishes for DefaultQueue go
	// to ZoneQueue.
	Zone string
	// Lease is the time after which the server redelivers a message whose lease was not
	// extended. New consumers store it; existing ones keep theirs. Default 30 s.
	Lease time.Duration
	// Log receives connection events. The zero value logs nothing.
	Log zerolog.Logger
	// InProcess connects to an embedded server without a socket.
	InProcess nats.InProcessConnProvider
	// DiskSpace is how many bytes the server may store, if it is known; it limits
	// the default of MaxBytes. embedded.Server sets it.
	DiskSpace int64
	// Dialer replaces the default dialer, for tests.
	Dialer nats.CustomDialer
}

// Notice is how long a program waits for a connection before it says so.
const Notice = 2 * time.Second

// hasCredential reports whether c contains a credential.
func (c Config) hasCredential() bool {
	return cmp.Or(c.Creds, c.NKey, c.User, c.Password, c.Token, c.TLSCert) != "" || strings.Contains(c.Server, "@")
}

func (c Config) withDefaults() Config {
	c.Server = cmp.Or(c.Server, nats.DefaultURL)
	c.Timeout = cmp.Or(max(c.Timeout, 0), 5*time.Second)
	c.Away = cmp.Or(max(c.Away, 0), 30*time.Second)
	c.Lease = cmp.Or(max(c.Lease, 0), 30*time.Second)
	return c
}

// Redacted stands for a secret in texts.
const Redacted = "xxxxx"

// RedactURLs replaces the passwords and tokens in a list of server URLs, for errors
// and logs. A URL may have no scheme.
func RedactURLs(list string) string {
	urls := strings.Split(list, ",")
	for i, s := range urls {
		s = strings.TrimSpace(s)
		scheme, rest, ok := strings.Cut(s, "://")
		if !ok {
			scheme, rest = "nats", s
		}
		u, err := url.Parse(scheme + "://" + rest)
		// url.Parse takes a part of a password with / ? or # for the path or the port.
		if err != nil || u.User == nil && strings.Contains(rest, "@") {
			urls[i] = "(an unreadable URL)"
			continue
		}
		shown := url.URL{Scheme: u.Scheme, Host: u.Host}
		if u.User != nil {
			shown.User = url.User(Redacted)
		}
		urls[i] = shown.String()
	}
	return strings.Join(urls, ",")
}

// withoutURL removes the URL, which may contain a password, from the error about a
// malformed URL.
func withoutURL(err error) error {
	if _, malformed := errors.AsType[*url.Error](err); malformed {
		return errors.New("malformed URL; percent-encode all characters of the user and the password except letters and digits")
	}
	return err
}
