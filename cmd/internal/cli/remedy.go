package cli

import (
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
)

// Command returns a command line of this program for somebody who has the connection, to be pasted into a
// shell. Passwords and tokens are never in it, and neither is what the environment says already.
func (c *Connection) Command(args ...string) string {
	server := c.Server
	if u, err := url.Parse(server); err == nil && u.User != nil {
		u.User = nil
		server = u.String()
	}
	if !c.External() {
		server = ""
	}
	for _, s := range []struct{ flag, value, other, env string }{
		{"data", c.Data, DefaultDataDir(), ""}, {"server", server, "", "NATS_URL"}, {"context", c.Context, "", "NATS_CONTEXT"},
		{"creds", c.Creds, "", "NATS_CREDS"}, {"nkey", c.NKey, "", "NATS_NKEY"}, {"user", c.User, "", "NATS_USER"},
		{"tlscert", c.TLSCert, "", "NATS_CERT"}, {"tlskey", c.TLSKey, "", "NATS_KEY"}, {"tlsca", c.TLSCA, "", "NATS_CA"},
		{"js-domain", c.Domain, "", ""}, {"js-api-prefix", c.APIPrefix, "", ""},
		{"inbox-prefix", c.InboxPrefix, "", "NATS_INBOX_PREFIX"}, {"prefix", c.Prefix, bus.DefaultPrefix, ""},
	} {
		own := os.Getenv("STEVEDORE_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_")))
		if s.value == "" || s.value == s.other || s.value == own || s.env != "" && s.value == os.Getenv(s.env) || s.flag == "data" && c.External() {
			continue
		}
		args = append(args, "--"+s.flag, s.value)
	}
	words := []string{"stevedore"}
	for _, arg := range args {
		words = append(words, ShellWord(arg))
	}
	return strings.Join(words, " ")
}

// connectionOf returns the connection that the flags of a command name.
func connectionOf(flags *pflag.FlagSet) *Connection {
	c := new(Connection)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(own)
	own.VisitAll(func(f *pflag.Flag) {
		if given := flags.Lookup(f.Name); given != nil {
			_ = f.Value.Set(given.Value.String()) // it was accepted
		}
	})
	return c
}
