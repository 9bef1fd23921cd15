package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/serverconfig"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

const serverConfigHelp = `With --server-config DIR, the command contacts no server. It writes DIR/nats-server.conf and
one secret key for each login, for --nkey, into DIR. Each --tenant is an account with its
own streams and workers, and with these logins:

  TENANT-operator  everything in the tenant; provisions it
  TENANT-worker    runs workers, notifiers and heartbeats; creates no streams
  TENANT-console   serves the web page
  TENANT-readonly  reads everything and changes nothing
  TENANT-session-S uses one session only (--client TENANT/S)
  TENANT-queue-Q   uses one queue, in all sessions (--queue-client TENANT/Q)

Run the command again to add tenants and clients: it keeps existing keys, but writes only
the tenants and clients that it is given. To replace a key, delete its file before. Then
restart the server; after a reload, new imports of clients do not work.
`

// serverConfigOptions are the flags of --server-config.
type serverConfigOptions struct {
	dir          string
	tenants      []string
	clients      []string
	queueClients []string
	maxBytes     int64
	cfg          serverconfig.Config
}

func (o *serverConfigOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.dir, "server-config", "", "write the configuration of a NATS server, and its keys, into `DIR`")
	flags.StringSliceVar(&o.tenants, "tenant", []string{"main"}, "`NAME`s of the tenants in --server-config")
	flags.StringSliceVar(&o.clients, "client", nil, "`TENANT/SESSION` that gets a login of its own in --server-config")
	flags.StringSliceVar(&o.queueClients, "queue-client", nil, "`TENANT/QUEUE` that gets a login of its own in --server-config")
	flags.Int64Var(&o.maxBytes, "tenant-max-bytes", 0, "`BYTES` that each tenant may store, in --server-config; 0 means no limit")
	flags.StringVar(&o.cfg.Listen, "server-listen", "127.0.0.1:4222", "`HOST:PORT` of the server in --server-config; other hosts can reach it only with a certificate")
	flags.StringVar(&o.cfg.Cert, "server-cert", "", "certificate `FILE` of the server in --server-config")
	flags.StringVar(&o.cfg.Key, "server-key", "", "key `FILE` of the server in --server-config")
	flags.StringVar(&o.cfg.CA, "server-ca", "", "`FILE` of the authority whose certificates clients need, in --server-config")
	flags.StringVar(&o.cfg.Store, "server-store", "", "`DIR` of the server's data, in --server-config; default: jetstream in DIR of --server-config")
	flags.BoolVar(&o.cfg.Insecure, "server-insecure", false, "let other hosts reach the server in --server-config without encryption")
}

// write writes the configuration and prints what to do with it.
func (o *serverConfigOptions) write(subjects bus.Subjects, out io.Writer) error {
	cfg := o.cfg
	cfg.Subjects = subjects
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if cfg.Store == "" {
		cfg.Store = filepath.Join(dir, "jetstream")
	}
	for _, file := range []*string{&cfg.Cert, &cfg.Key, &cfg.CA} {
		if *file != "" {
			if *file, err = filepath.Abs(*file); err != nil {
				return err
			}
		}
	}
	for _, name := range o.tenants {
		t := serverconfig.Tenant{Name: name, MaxBytes: o.maxBytes}
		t.Sessions, t.Queues = clientsOf(name, o.clients), clientsOf(name, o.queueClients)
		for i, session := range t.Sessions {
			t.Sessions[i] = tools.Token(session) // as in subjects
		}
		cfg.Tenants = append(cfg.Tenants, t)
	}
	for flag, list := range map[string][]string{"client": o.clients, "queue-client": o.queueClients} {
		for _, given := range list {
			tenant, name, ok := strings.Cut(given, "/")
			if !ok || name == "" || !slices.Contains(o.tenants, tenant) {
				return cli.Exit(cli.ExitUsage, "--%s %q: want TENANT/NAME, with a tenant of --tenant", flag, given)
			}
		}
	}
	if err := cfg.Check(); err != nil {
		return cli.Exit(cli.ExitUsage, "--server-config: %w", err)
	}
	written, err := serverconfig.Write(dir, cfg)
	if err != nil {
		return cli.Exit(cli.ExitFailed, "--server-config: %w", err)
	}
	fmt.Fprintf(out, "%s\n", filepath.Join(dir, serverconfig.File))
	for _, w := range written {
		state := "kept"
		if w.New {
			state = "new"
		}
		fmt.Fprintf(out, "%s (%s)\n", w.Seed, state)
	}
	scheme, first := "nats", cfg.Tenants[0].Name
	if cfg.Cert != "" {
		scheme = "tls"
	}
	_, err = fmt.Fprintf(out, `Next:
  nats-server -c %[1]s
  stevedore provision --server %[2]s://%[3]s --nkey %[4]s/%[5]s-operator.nk
  stevedore serve --server %[2]s://%[3]s --nkey %[4]s/%[5]s-worker.nk --inbox-prefix _INBOX_worker
`, cli.ShellWord(filepath.Join(dir, serverconfig.File)), scheme, cfg.Listen, cli.ShellWord(dir), first)
	return err
}

func clientsOf(tenant string, given []string) (names []string) {
	for _, client := range given {
		if t, name, ok := strings.Cut(client, "/"); ok && t == tenant {
			names = append(names, name)
		}
	}
	return names
}
