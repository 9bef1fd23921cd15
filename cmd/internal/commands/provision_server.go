package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/serverconfig"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

const serverConfigHelp = `With --server-config DIR, the command contacts no server. It writes DIR/nats-server.conf and
one secret key for each login, for --nkey, into DIR. Each --tenant is an account with its
own streams and workers, and with these logins:

  TENANT-operator  everything in the tenant; provisions it
  TENANT-worker    runs workers, notifiers and heartbeats; creates few streams (docs/grow.md)
  TENANT-console   serves the web page
  TENANT-readonly  reads everything and changes nothing
  TENANT-session-S uses one session only (--client TENANT/S)
  TENANT-queue-Q   uses one queue, in all sessions (--queue-client TENANT/Q)
  TENANT-bridge-C  is the bridge of one channel (--bridge TENANT/C)

Run the command again to add tenants and clients: it keeps those of before, their keys, and the
settings of the server. With --replace it writes only what it is given. To replace a key, delete
its file before. Then restart the server, or reload it twice: after one reload, new clients of
sessions and queues get no answers.

With --serve-from TENANTS, it adds the tenants to servers that run: it tells all servers of the
cluster to read their configuration again, creates the streams that each tenant needs, and puts
the key of each worker into the directory TENANTS, from which "stevedore serve --tenants" takes
it. Nothing restarts. Workers create the other streams at their first use. If the servers have
copies of the configuration, copy it to each of them first; the command names one that is old.

  stevedore provision --context prod
  stevedore provision --context prod --update
  stevedore provision --server-config conf --tenant red --tenant blue`

// serverConfigOptions are the flags of --server-config.
type serverConfigOptions struct {
	Dir          string   `flag:"server-config" unit:"DIR" help:"write the configuration of a NATS server, and its keys, into DIR"`
	Tenants      []string `flag:"tenant" split:"," unit:"NAME" help:"NAMEs of the tenants in --server-config; default main, or those of before"`
	Clients      []string `flag:"client" split:"," unit:"TENANT/SESSION" help:"TENANT/SESSION that gets a login of its own in --server-config"`
	QueueClients []string `flag:"queue-client" split:"," unit:"TENANT/QUEUE" help:"TENANT/QUEUE that gets a login of its own in --server-config"`
	Bridges      []string `flag:"bridge" split:"," unit:"TENANT/CHANNEL" help:"TENANT/CHANNEL whose bridge gets a login of its own in --server-config"`
	MaxBytes     int64    `flag:"tenant-max-bytes" unit:"BYTES" help:"BYTES that each tenant may store, in --server-config; 0 means no limit"`
	Replace      bool     `flag:"replace" help:"write only the tenants and clients that are given, in --server-config"`
	ServeFrom    string   `flag:"serve-from" unit:"DIR" help:"add the tenants of --server-config to the running servers, and their workers to DIR"`
	cfg          serverconfig.Config
	flags        *pflag.FlagSet
}

func (o *serverConfigOptions) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	cli.AddOptions(flags, o)
	cli.AddOptionsOf(flags, &o.cfg, struct {
		Listen   string `flag:"server-listen" default:"127.0.0.1:4222" unit:"HOST:PORT" help:"HOST:PORT of the server in --server-config"`
		Cert     string `flag:"server-cert" unit:"FILE" help:"certificate FILE of the server in --server-config; other hosts reach it only with one"`
		Key      string `flag:"server-key" unit:"FILE" help:"key FILE of the server in --server-config"`
		CA       string `flag:"server-ca" unit:"FILE" help:"FILE of the authority whose certificates clients need, in --server-config"`
		Store    string `flag:"server-store" unit:"DIR" help:"DIR of the server's data; default jetstream in DIR of --server-config"`
		Insecure bool   `flag:"server-insecure" help:"let other hosts reach the server in --server-config without encryption"`
	}{})
}

// write writes the configuration and prints what to do with it.
func (o *serverConfigOptions) write(
	ctx context.Context, subjects bus.Subjects, connection cli.Connection, out io.Writer,
) (cfg serverconfig.Config, err error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return cfg, err
	}
	unlock, err := durable.LockIn(ctx, dir) // otherwise it loses the tenants that another command adds now
	if err != nil {
		return cfg, cli.Exit(cli.ExitFailed, "--server-config: %w", err)
	}
	defer unlock()
	if cfg, err = o.merge(dir); err != nil {
		return cfg, err
	}
	cfg.Subjects = subjects
	cfg.Store = cmp.Or(cfg.Store, filepath.Join(dir, "jetstream"))
	for _, file := range []*string{&cfg.Cert, &cfg.Key, &cfg.CA} {
		if *file != "" {
			if *file, err = filepath.Abs(*file); err != nil {
				return cfg, err
			}
		}
	}
	isTenant := func(name string) bool {
		return slices.ContainsFunc(cfg.Tenants, func(t serverconfig.Tenant) bool { return t.Name == name })
	}
	for flag, list := range map[string][]string{"client": o.Clients, "queue-client": o.QueueClients, "bridge": o.Bridges} {
		for _, given := range list {
			tenant, name, ok := strings.Cut(given, "/")
			if !ok || name == "" || !isTenant(tenant) {
				return cfg, cli.Exit(cli.ExitUsage, "--%s %q: want TENANT/NAME, with a tenant of --tenant", flag, given)
			}
		}
	}
	if err := cfg.Check(); err != nil {
		return cfg, cli.Exit(cli.ExitUsage, "--server-config: %w", err)
	}
	written, err := serverconfig.Write(dir, cfg)
	if err != nil {
		return cfg, cli.Exit(cli.ExitFailed, "--server-config: %w", err)
	}
	fmt.Fprintf(out, "%s\n", filepath.Join(dir, serverconfig.File))
	for _, w := range written {
		state := "kept"
		if w.New {
			state = "new"
		}
		fmt.Fprintf(out, "%s (%s)\n", w.Seed, state)
	}
	if o.ServeFrom != "" {
		return cfg, nil
	}
	connection.Server, connection.Context = serverURL(cfg), ""
	key := func(role string) string { return filepath.Join(dir, cfg.Tenants[0].Name+"-"+role+".nk") }
	connection.NKey = key("operator")
	provision := connection.Command("provision")
	connection.NKey, connection.InboxPrefix = key("worker"), "_INBOX_worker"
	_, err = fmt.Fprintf(out, "Next:\n  nats-server -c %s\n  %s\n  %s\n", cli.ShellWord(filepath.Join(dir, serverconfig.File)), provision,
		connection.Command("serve"))
	return cfg, err
}

func serverURL(cfg serverconfig.Config) string {
	if cfg.Cert != "" {
		return "tls://" + cfg.Listen
	}
	return "nats://" + cfg.Listen
}

// merge returns the configuration of the directory with what the flags add.
func (o *serverConfigOptions) merge(dir string) (serverconfig.Config, error) {
	cfg, given := o.cfg, o.Tenants
	stored, ok, err := serverconfig.Read(dir)
	switch {
	case o.Replace || !ok && err == nil:
		if given == nil {
			given = []string{"main"}
		}
	case err != nil:
		return cfg, cli.Exit(cli.ExitFailed, "--server-config: %w; give all tenants and clients with --replace", err)
	default:
		cfg = stored
		for name, copyFlag := range map[string]func(){
			"server-listen": func() { cfg.Listen = o.cfg.Listen }, "server-store": func() { cfg.Store = o.cfg.Store },
			"server-insecure": func() { cfg.Insecure = o.cfg.Insecure },
			"server-cert":     func() { cfg.Cert = o.cfg.Cert }, "server-key": func() { cfg.Key = o.cfg.Key }, "server-ca": func() { cfg.CA = o.cfg.CA },
		} {
			if o.flags.Changed(name) {
				copyFlag()
			}
		}
	}
	for _, name := range given {
		if !slices.ContainsFunc(cfg.Tenants, func(t serverconfig.Tenant) bool { return t.Name == name }) {
			cfg.Tenants = append(cfg.Tenants, serverconfig.Tenant{Name: name, MaxBytes: o.MaxBytes})
		}
	}
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		if o.flags.Changed("tenant-max-bytes") && slices.Contains(given, t.Name) {
			t.MaxBytes = o.MaxBytes
		}
		for _, session := range clientsOf(t.Name, o.Clients) {
			t.Sessions = append(t.Sessions, tools.Token(session)) // as in subjects
		}
		t.Queues = append(t.Queues, clientsOf(t.Name, o.QueueClients)...)
		t.Bridges = append(t.Bridges, clientsOf(t.Name, o.Bridges)...)
		for _, names := range []*[]string{&t.Sessions, &t.Queues, &t.Bridges} {
			slices.Sort(*names)
			*names = slices.Compact(*names)
		}
	}
	return cfg, nil
}

func clientsOf(tenant string, given []string) (names []string) {
	for _, client := range given {
		if t, name, ok := strings.Cut(client, "/"); ok && t == tenant {
			names = append(names, name)
		}
	}
	return names
}
