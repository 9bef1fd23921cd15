package commands

import (
	"fmt"
	"io"
	"net/url"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// printEnv prints the URL of the server and its credential separately, as lines for a
// shell. They are the variables of the nats CLI, and those that stevedore reads.
func printEnv(out io.Writer, server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("print the server's URL: %w", err)
	}
	password, _ := u.User.Password()
	user := u.User.Username()
	u.User = nil
	_, err = fmt.Fprintf(out, "export NATS_URL=%s\nexport NATS_USER=%s\nexport NATS_PASSWORD=%s\n",
		cli.ShellWord(u.String()), cli.ShellWord(user), cli.ShellWord(password))
	return err
}
