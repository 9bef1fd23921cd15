package cli

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
)

// CommandForOthers is Command for a text that leaves the host: it names no credential of this process.
func (c *Connection) CommandForOthers(args ...string) string {
	others := Connection{Config: bus.Config{Server: c.Server, Prefix: c.Prefix, Domain: c.Domain, APIPrefix: c.APIPrefix}, Data: c.Data}
	return others.Command(args...)
}

// Command returns a command line of this program for somebody who has the connection, to be pasted into a
// shell. What the environment or the settings file says is not in it. Passwords and tokens that are only on
// the command line are bus.Redacted in it, because texts are logged and shown to others.
func (c *Connection) Command(args ...string) string {
	if len(args) > 0 && (args[0] == "provision" || args[0] == "backup") {
		c = c.operator()
	}
	server, config := c.Server, ""
	if !c.External() {
		server = ""
	}
	for _, s := range []struct{ flag, value, other, env string }{
		{"data", c.Data, DefaultDataDir(), ""}, {"server", server, "", "NATS_URL"}, {"context", c.Context, "", "NATS_CONTEXT"},
		{"creds", c.Creds, "", "NATS_CREDS"}, {"nkey", c.NKey, "", "NATS_NKEY"}, {"user", c.User, "", "NATS_USER"},
		{"password", c.Password, "", "NATS_PASSWORD"}, {"token", c.Token, "", "NATS_TOKEN"},
		{"tlscert", c.TLSCert, "", "NATS_CERT"}, {"tlskey", c.TLSKey, "", "NATS_KEY"}, {"tlsca", c.TLSCA, "", "NATS_CA"},
		{"js-domain", c.Domain, "", ""}, {"js-api-prefix", c.APIPrefix, "", ""},
		{"inbox-prefix", c.InboxPrefix, "", "NATS_INBOX_PREFIX"}, {"prefix", c.Prefix, bus.DefaultPrefix, ""},
	} {
		if s.value == "" || s.value == s.other || s.value == os.Getenv(envName(s.flag)) || s.env != "" && s.value == os.Getenv(s.env) ||
			s.flag == "data" && c.External() {
			continue
		}
		if c.flags != nil && c.flags.Lookup(s.flag) != nil && c.flags.Lookup(s.flag).Annotations[fileAnnotation] != nil {
			config = c.flags.Lookup(s.flag).Annotations[fileAnnotation][0]
			continue
		}
		switch s.flag {
		case "server":
			s.value = bus.RedactURLs(s.value)
		case "password", "token":
			s.value = bus.Redacted
		}
		args = append(args, "--"+s.flag, s.value)
	}
	if config != "" && config != os.Getenv(envName(configFlag)) {
		args = append(args, "--"+configFlag, config)
	}
	words := []string{"stevedore"}
	for _, arg := range args {
		words = append(words, ShellWord(arg))
	}
	return strings.Join(words, " ")
}

// operator returns the connection of a login that may create and read everything, if the key of c is one that
// "provision --server-config" has written for another role.
func (c *Connection) operator() *Connection {
	for _, role := range []string{"worker", "console", "readonly"} {
		if tenant, ok := strings.CutSuffix(c.NKey, "-"+role+".nk"); ok {
			other := *c
			other.NKey, other.InboxPrefix = tenant+"-operator.nk", ""
			return &other
		}
	}
	return c
}

// connectionOf returns the connection that the flags of a command name.
func connectionOf(flags *pflag.FlagSet) *Connection {
	c := new(Connection)
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(own)
	c.flags = flags
	own.VisitAll(func(f *pflag.Flag) {
		if given := flags.Lookup(f.Name); given != nil {
			_ = f.Value.Set(given.Value.String()) // it was accepted
		}
	})
	return c
}
