package cli

import (
	"os"
	"slices"
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
	c = c.login(args)
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
		if file := c.fileOf(s.flag); file != "" {
			if config = file; c.flags.Lookup(s.flag).Value.String() == s.value { // not of another login
				continue
			}
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

// fileOf returns the settings file that has set a flag, or "".
func (c *Connection) fileOf(flag string) string {
	if c.flags != nil {
		if f := c.flags.Lookup(flag); f != nil && f.Annotations[fileAnnotation] != nil {
			return f.Annotations[fileAnnotation][0]
		}
	}
	return ""
}

// login returns the connection of a login that may run a command, if the key of c is one that "provision
// --server-config" has written for a role that may not.
func (c *Connection) login(args []string) *Connection {
	command := strings.Join(args[:min(len(args), 2)], " ") + " "
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(command, name+" ") })
	}
	for _, role := range []string{"worker", "console", "readonly"} {
		tenant, ok := strings.CutSuffix(c.NKey, "-"+role+".nk")
		if !ok {
			continue
		}
		other := *c
		switch {
		case is("provision", "backup"), role != "worker" && is("channels rm", "artifacts sweep"), role == "readonly" && is("sessions rm", "artifacts rm", "call"):
			other.NKey, other.InboxPrefix = tenant+"-operator.nk", ""
		case role != "worker" && is("serve"):
			other.NKey, other.InboxPrefix = tenant+"-worker.nk", "_INBOX_worker"
		}
		return &other
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
