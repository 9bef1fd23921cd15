package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/cmd/internal/serverconfig"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// addToFleet adds the tenants of --tenant, or all, to the server that runs with the configuration,
// and then to the directory of "serve --tenants". It can be repeated after any failure.
func (o *serverConfigOptions) addToFleet(ctx context.Context, c *client.Options, cfg serverconfig.Config, out io.Writer) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if c.Connection.Server == "" {
		c.Connection.Server = serverURL(cfg)
	}
	c.Connection.NKey = filepath.Join(dir, "system.nk")
	if err := reload(&c.Connection); err != nil {
		return cli.Exit(cli.ExitUnreachable, "reload the server: %w; start it with nats-server -c %s, and repeat the command", err, cli.ShellWord(filepath.Join(dir, serverconfig.File)))
	}
	if err := os.MkdirAll(o.serveFrom, 0o700); err != nil {
		return err
	}
	for _, t := range cfg.Tenants {
		if len(o.tenants) > 0 && !slices.Contains(o.tenants, t.Name) {
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
		file := filepath.Join(o.serveFrom, t.Name+".nk")
		if err := durable.WriteFile(file, seed, 0o600); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s (the tenant %s has its streams)\n", file, t.Name)
	}
	_, err = fmt.Fprintf(out, "A process that runs this serves them, at once or within 2 s:\n  stevedore serve --server %s --inbox-prefix _INBOX_worker --tenants %s\n", c.Connection.Server, cli.ShellWord(o.serveFrom))
	return err
}

// reload tells the server to read its configuration again.
func reload(c *cli.Connection) error {
	key, err := nats.NkeyOptionFromSeed(c.NKey)
	if err != nil {
		return err
	}
	opts := []nats.Option{key, nats.Name("stevedore provision"), nats.Timeout(c.Timeout)}
	if c.TLSCA != "" {
		opts = append(opts, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert != "" {
		opts = append(opts, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	nc, err := nats.Connect(c.Server, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	for range 2 { // the imports of accounts that a first reload adds work after the second one (nats-server 2.15)
		m, err := nc.Request("$SYS.REQ.SERVER."+nc.ConnectedServerId()+".RELOAD", nil, c.Timeout)
		if err != nil {
			return err
		}
		var answer struct{ Error *struct{ Description string } }
		if err := json.Unmarshal(m.Data, &answer); err == nil && answer.Error != nil {
			return fmt.Errorf("the server refuses its configuration: %s", answer.Error.Description)
		}
	}
	return nil
}
