package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/serverconfig"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// addToFleet adds the tenants of --tenant, or all, to the servers that run with the configuration,
// and then to the directory of "serve --tenants". It can be repeated after any failure.
func (o *serverConfigOptions) addToFleet(ctx context.Context, c *client.Options, cfg serverconfig.Config, out io.Writer) error {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	c.Connection.Server = cmp.Or(c.Connection.Server, serverURL(cfg))
	c.Connection.NKey = filepath.Join(dir, "system.nk")
	if err := o.reload(ctx, c.Connection.Config, cfg.Tenants); err != nil {
		return err
	}
	if err := os.MkdirAll(o.ServeFrom, 0o700); err != nil {
		return err
	}
	for _, t := range cfg.Tenants {
		if len(o.Tenants) > 0 && !slices.Contains(o.Tenants, t.Name) {
			continue
		}
		c.Connection.NKey = filepath.Join(dir, t.Name+"-operator.nk")
		c.Connection.OnDemand = true
		b, err := c.Connection.Connect(ctx, "stevedore provision", zerolog.Nop())
		if err != nil {
			return fmt.Errorf("tenant %s: %w", t.Name, err)
		}
		_, err = admin.Provision(ctx, b, admin.Nothing)
		b.Close()
		if err != nil {
			return fmt.Errorf("tenant %s: %w", t.Name, err)
		}
		seed, err := os.ReadFile(filepath.Join(dir, t.Name+"-worker.nk"))
		if err != nil {
			return err
		}
		file := filepath.Join(o.ServeFrom, t.Name+".nk")
		if err := durable.WriteFile(file, seed, 0o600); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s (the tenant %s has its streams)\n", file, t.Name)
	}
	worker := c.Connection
	worker.NKey, worker.InboxPrefix = "", "_INBOX_worker" // the tenants have keys of their own
	_, err = fmt.Fprintf(out, "A process that runs this serves them, at once or within 2 s:\n  %s\n",
		worker.Command("serve", "--tenants", o.ServeFrom))
	return err
}

// reload tells all servers of a cluster to read their configuration again, and returns an error if
// one of them does not know the tenants afterwards.
func (o *serverConfigOptions) reload(ctx context.Context, c bus.Config, tenants []serverconfig.Tenant) error {
	c.Name = "stevedore provision"
	nc, err := bus.Dial(c)
	if err != nil {
		return cli.Exit(cli.ExitUnreachable, "reload the server: %w; start it with nats-server -c %s, and repeat the command", err,
			cli.ShellWord(filepath.Join(o.Dir, serverconfig.File)))
	}
	defer nc.Close()
	for range 2 { // the imports of accounts that a first reload adds work after the second one (nats-server 2.15)
		servers, err := askServers(ctx, nc, c.Timeout)
		if err != nil {
			return err
		}
		for _, s := range servers {
			m, err := nc.Request("$SYS.REQ.SERVER."+s.Server.ID+".RELOAD", nil, c.Timeout)
			if err != nil {
				return cli.Exit(cli.ExitUnreachable, "reload the server %q: %w", s.Server.Name, err)
			}
			var answer struct{ Error *struct{ Description string } }
			if err := json.Unmarshal(m.Data, &answer); err == nil && answer.Error != nil {
				return cli.Exit(cli.ExitFailed, "the server %q refuses its configuration: %s", s.Server.Name, answer.Error.Description)
			}
		}
	}
	servers, err := askServers(ctx, nc, c.Timeout)
	for _, s := range servers {
		for _, t := range tenants {
			if !slices.Contains(s.Data.Accounts, t.Name) {
				return cli.Exit(cli.ExitFailed, "the server %q does not have the tenant %q: copy %s to it, and repeat the command",
					s.Server.Name, t.Name, filepath.Join(o.Dir, serverconfig.File))
			}
		}
	}
	return err
}

// serverAccounts is what a server tells about its accounts.
type serverAccounts struct {
	Server struct{ ID, Name string }
	Data   struct{ Accounts []string }
}

// nextServer is how long the answer of a further server may take.
const nextServer = time.Second

// askServers returns the accounts of each server of the cluster. The first answer may take timeout.
func askServers(ctx context.Context, nc *nats.Conn, timeout time.Duration) (all []serverAccounts, err error) {
	next := nextServer
	if nc.ConnectedClusterName() == "" { // it is alone
		next = 0
	}
	err = task.CollectReplies(ctx, nc, "$SYS.REQ.SERVER.PING.ACCOUNTZ", nil, timeout, func(body []byte) time.Duration {
		var s serverAccounts
		if json.Unmarshal(body, &s) == nil {
			all = append(all, s)
		}
		return next
	})
	if len(all) == 0 && (err == nil || errors.Is(err, task.ErrSilent)) {
		err = errors.New("no server tells its accounts")
	}
	return all, err
}
