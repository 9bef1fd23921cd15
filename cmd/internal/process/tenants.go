package process

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/otlp"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const (
	// tenantScanInterval is how often the directory of the tenants is read.
	tenantScanInterval = 2 * time.Second
	// tenantsStarting is how many tenants start at once.
	tenantsStarting = 16
	// tenantCheckInterval is the shortest time between two checks of the streams of a tenant. A
	// refused publish leads to a check at once.
	tenantCheckInterval = time.Minute
)

// fleet runs the parts of many tenants in one process. Each tenant is a NATS account: it has a
// connection, a workspace, channels and models of its own, and shares only slots with the others.
// A file in the directory makes a tenant, also while the process runs; tenantfile.go explains the
// files. If a tenant fails, it starts again after a pause, and the others go on.
type fleet struct {
	options  *Options       // of the process
	flags    *pflag.FlagSet // that set them
	dir      string
	accounts *Accounts
	log      zerolog.Logger

	starting chan struct{} // has an element for each tenant that starts
	helpers  *limited.Pool // the tenants have a part of it each
	scanned  atomic.Bool   // the tenants of the first scan run or have failed once

	mu      sync.Mutex
	tenants map[string]*tenant
	pools   map[string]*consume.Pool // by queue
}

// tenant is a tenant that runs, or that starts again and again.
type tenant struct {
	fleet *fleet
	name  string
	files tenantFiles
	log   zerolog.Logger
	stop  context.CancelFunc
	tried chan struct{} // closed when it runs or has failed
	ended chan struct{}

	stopping bool // its files were removed or have changed; only scan uses it

	// Guarded by fleet.mu:
	health    *health // while it runs
	workspace string  // "" before it has one
}

// RunTenants runs the tenants of a directory until ctx ends. flags are those of the options. It
// calls onReady when each tenant of the first scan runs or has failed.
func (o *Options) RunTenants(ctx context.Context, flags *pflag.FlagSet, dir string, log zerolog.Logger, onReady func(tenants int) error) error {
	if err := o.checkFleet(flags, dir); err != nil {
		return err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	otlp.LogErrors(log)
	f := &fleet{options: o, flags: flags, dir: dir, accounts: NewAccounts(), log: log, starting: make(chan struct{}, tenantsStarting), helpers: NewPool(),
		tenants: map[string]*tenant{}, pools: map[string]*consume.Pool{}}
	if o.Health != "" {
		stop, err := listenHealth(o.Health, cmp.Or(o.Worker.Name, "tenants"), log, func() error { return nil }, f.ready, f.metrics)
		if err != nil {
			return err
		}
		defer stop()
	}
	return f.run(ctx, onReady)
}

// checkFleet returns an error if the process cannot keep tenants apart.
func (o *Options) checkFleet(flags *pflag.FlagSet, dir string) error {
	c := &o.Connection
	switch {
	case c.Creds+c.NKey+c.User+c.Password+c.Token+c.Context != "" || strings.Contains(c.Server, "@"):
		return cli.Exit(cli.ExitUsage, "--tenants: each tenant has its own credential in %q; remove that of the process (--creds, --nkey, "+
			"--user, --password, --token, --context, or the one in --server)", dir)
	case c.Server == "":
		return cli.Exit(cli.ExitUsage, "--tenants: name the NATS server with --server")
	}
	for _, name := range tenantSettings {
		if flags.Changed(name) {
			return cli.Exit(cli.ExitUsage, "--tenants: --%s belongs to a tenant; set it in NAME.yaml in %q", name, dir)
		}
	}
	if _, err := os.ReadDir(dir); err != nil {
		return cli.Exit(cli.ExitUsage, "--tenants: %w", err)
	}
	return nil
}

func (f *fleet) run(ctx context.Context, onReady func(tenants int) error) error {
	ticker := time.NewTicker(tenantScanInterval)
	defer ticker.Stop()
	defer func() {
		all := f.all()
		for _, t := range all {
			t.stop()
		}
		for _, t := range all {
			<-t.ended
		}
	}()
	for {
		if err := f.scan(ctx); err != nil {
			f.log.Error().Err(err).Msg("cannot read the directory of the tenants")
		}
		if !f.scanned.Load() {
			all := f.all()
			for _, t := range all {
				<-t.tried
			}
			if ctx.Err() == nil {
				if err := onReady(len(all)); err != nil {
					return err
				}
			}
			f.scanned.Store(true)
		}
		select {
		case <-ctx.Done():
			f.scanned.Store(false)
			return nil
		case <-ticker.C:
		}
	}
}

// all returns the tenants in the order of their names.
func (f *fleet) all() (all []*tenant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.tenants)) {
		all = append(all, f.tenants[name])
	}
	return all
}

// scan starts, restarts and stops the tenants whose files were added, changed and removed.
func (f *fleet) scan(ctx context.Context) error {
	found, err := readTenantFiles(f.dir)
	if err != nil {
		return err
	}
	for _, t := range f.all() {
		files, ok := found[t.name]
		if ok && files == t.files && !t.stopping {
			delete(found, t.name)
			continue
		}
		t.stop()
		t.stopping = true
		select {
		case <-t.ended:
			f.mu.Lock()
			delete(f.tenants, t.name)
			f.mu.Unlock()
		default: // it starts again, or is forgotten, after its running calls have ended
			delete(found, t.name)
		}
	}
	for name, files := range found {
		f.start(ctx, name, files)
	}
	return nil
}

func (f *fleet) start(ctx context.Context, name string, files tenantFiles) {
	ctx, stop := context.WithCancel(ctx)
	t := &tenant{fleet: f, name: name, files: files, log: f.log.With().Str("tenant", name).Logger(), stop: stop,
		tried: make(chan struct{}), ended: make(chan struct{})}
	f.mu.Lock()
	f.tenants[name] = t
	f.mu.Unlock()
	go func() {
		defer close(t.ended)
		t.run(ctx)
	}()
}

// run serves the tenant until ctx ends.
func (t *tenant) run(ctx context.Context) {
	tried := sync.OnceFunc(func() { close(t.tried) })
	defer tried()
	lastError := ""
	for attempt := 1; ctx.Err() == nil; attempt++ {
		served, err := t.serve(ctx, tried)
		if served {
			attempt = 1
		}
		if ctx.Err() != nil {
			if err != nil {
				t.log.Error().Err(err).Msg("the tenant did not stop cleanly")
			}
			break
		}
		err = cmp.Or(err, errors.New("its parts have ended"))
		level := zerolog.ErrorLevel
		if !served && err.Error() == lastError {
			level = zerolog.DebugLevel
		}
		lastError = err.Error()
		pause := consume.RetryDelay(attempt)
		t.log.WithLevel(level).Err(err).Stringer("retry_in", pause.Round(time.Millisecond)).Msg("the tenant does not run")
		t.set(nil)
		tried()
		_ = tools.Sleep(ctx, pause)
	}
	t.log.Info().Msg("the tenant has stopped")
}

// set notes the health of a tenant that runs, or nil.
func (t *tenant) set(h *health) {
	t.fleet.mu.Lock()
	defer t.fleet.mu.Unlock()
	t.health = h
}

// serve opens the parts of the tenant and runs them until ctx ends or one fails.
func (t *tenant) serve(ctx context.Context, tried func()) (served bool, err error) {
	f := t.fleet
	select {
	case f.starting <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	started := sync.OnceFunc(func() { <-f.starting })
	defer started()
	o, err := t.options()
	if err != nil {
		return false, err
	}
	defer t.leaveWorkspace()
	b, err := o.Connection.Connect(ctx, "stevedore worker", t.log)
	if err != nil {
		return false, err
	}
	defer b.Close()
	leave, err := f.accounts.Claim(ctx, b, t.name)
	if err != nil {
		return false, err
	}
	defer leave()
	err = o.Run(ctx, b, t.log, io.Discard, func() (func() error, error) {
		served = true
		tried()
		started()
		return func() error { return nil }, nil
	})
	t.set(nil)
	return served, err
}

// pool returns the slots of a queue that the tenants share.
func (f *fleet) pool(queue string) *consume.Pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pools[queue] == nil {
		f.pools[queue] = consume.NewPool(f.options.Worker.Slots)
	}
	return f.pools[queue]
}
