package process

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/state/kv"
)

// StoreOptions select the artifact store.
type StoreOptions struct {
	Spec  string // object:BUCKET or disk:DIR
	ttl   time.Duration
	quota int64
}

// AddFlags adds the flags that an operator's sweep and the workers must agree on.
func (o *StoreOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Spec, "store", "object:", "`SPEC` of the artifact store: object:BUCKET (on the bus) or disk:DIR")
	o.addTTLFlag(flags)
}

func (o *StoreOptions) addTTLFlag(flags *pflag.FlagSet) {
	flags.DurationVar(&o.ttl, "artifact-ttl", 7*24*time.Hour, "`TIME` that an artifact is kept after it was last read")
}

// AddDiskFlags adds the flags of a command that always stores on disk.
func (o *StoreOptions) AddDiskFlags(flags *pflag.FlagSet) {
	o.addTTLFlag(flags)
	flags.Int64Var(&o.quota, "artifact-quota", 0, "`BYTES` that all artifacts may take; 0 means no limit")
}

// check refuses flags that are out of their range.
func (o *StoreOptions) check() error {
	switch {
	case o.ttl <= 0:
		return cli.Exit(cli.ExitUsage, "--artifact-ttl %s: want more than 0s", o.ttl)
	case o.quota < 0:
		return cli.Exit(cli.ExitUsage, "--artifact-quota %d: want 0 (no limit) or more bytes", o.quota)
	}
	return nil
}

// OpenDisk opens the store on disk in the data directory. It starts a sweep, because
// the processes that use it may be too short-lived for a regular one; closeStore waits
// for it.
func (o *StoreOptions) OpenDisk(connection *cli.Connection) (store offload.Store, closeStore func() error, err error) {
	if err := connection.CheckData(); err != nil {
		return nil, nil, err
	}
	o.Spec = "disk:"
	store, closeDisk, err := o.Open(context.Background(), connection, nil)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { _, _ = store.Sweep(ctx, SweepGrace) }) // the next process tries again
	return store, func() error {
		cancel()
		sweeping.Wait()
		return closeDisk()
	}, nil
}

// Open opens the store. b may be nil for a store on disk.
func (o *StoreOptions) Open(ctx context.Context, connection *cli.Connection, b *bus.Bus) (offload.Store, func() error, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	cfg := offload.StoreConfig{TTL: o.ttl, Quota: o.quota}
	if dir, ok := o.Dir(connection); ok {
		store, err := disk.Open(dir, cfg)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	kind, bucket, _ := strings.Cut(o.Spec, ":")
	if kind != "object" {
		return nil, nil, cli.Exit(cli.ExitUsage, "--store %q: want object:BUCKET or disk:DIR", o.Spec)
	}
	store, err := object.Open(ctx, b.JetStream(), object.Config{
		StoreConfig: cfg, Bucket: cmp.Or(bucket, b.BucketName(bus.BlobsBucket)), Records: b.BucketName(bus.ArtifactsBucket), Replicas: connection.Replicas,
	})
	return store, func() error { return nil }, err
}

// Dir returns the directory of a store on disk.
func (o *StoreOptions) Dir(connection *cli.Connection) (dir string, ok bool) {
	kind, dir, _ := strings.Cut(o.Spec, ":")
	if dir == "" {
		dir = filepath.Join(connection.Data, "artifacts")
	}
	return dir, kind == "disk"
}

// openState opens the state of this installation: a file next to an embedded
// server, or a bucket that all hosts share.
func openState(connection *cli.Connection, b *bus.Bus, log zerolog.Logger) (state.Store, error) {
	if connection.External() {
		return kv.New(func(ctx context.Context) (jetstream.KeyValue, error) { return b.Bucket(ctx, bus.StateBucket) }), nil
	}
	return state.OpenFile(filepath.Join(connection.Data, "state.json"), state.FileConfig{Log: log})
}
