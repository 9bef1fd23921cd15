package process

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/state/kv"
)

// StoreOptions select the artifact store.
type StoreOptions struct {
	Spec string `flag:"store" default:"object:" unit:"SPEC" help:"SPEC of the artifact store: object:BUCKET (on the bus) or disk:DIR"`
	DiskStoreOptions
}

// DiskStoreOptions are those of a store that is always on disk.
type DiskStoreOptions struct {
	TTL   time.Duration `flag:"artifact-ttl" default:"168h" min:"1ms" unit:"TIME" help:"TIME that an artifact is kept after it was last read"`
	Quota int64         `flag:"artifact-quota" min:"0" unit:"BYTES" help:"BYTES that all artifacts may take; 0 means no limit"`
}

// lastSweep is how long a process that ends goes on to sweep. Without it, one that only stores an output would remove less
// than it adds.
const lastSweep = 100 * time.Millisecond

// OpenDisk opens the store on disk in the data directory. It starts a sweep, because
// the processes that use it may be too short-lived for a regular one; closeStore waits
// for a part of it.
func (o DiskStoreOptions) OpenDisk(connection *cli.Connection) (store offload.Store, closeStore func() error, err error) {
	if err := connection.CheckData(); err != nil {
		return nil, nil, err
	}
	store, closeDisk, err := (&StoreOptions{"disk:", o}).Open(context.Background(), connection, nil, zerolog.Nop())
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		_, _ = store.Sweep(ctx, SweepGrace) // the next process goes on
	}()
	return store, func() error {
		select {
		case <-swept:
		case <-time.After(lastSweep):
		}
		cancel()
		<-swept
		return closeDisk()
	}, nil
}

func (o *StoreOptions) check() error {
	if kind, _, _ := strings.Cut(o.Spec, ":"); kind != "object" && kind != "disk" {
		return cli.Exit(cli.ExitUsage, "--store %q: want object:BUCKET or disk:DIR", o.Spec)
	}
	return nil
}

// Open opens the store. b may be nil for a store on disk.
func (o *StoreOptions) Open(ctx context.Context, connection *cli.Connection, b *bus.Bus, log zerolog.Logger) (offload.Store, func() error, error) {
	cfg := offload.StoreConfig{TTL: o.TTL, Quota: o.Quota, Log: log}
	if dir, ok := o.Dir(connection); ok {
		store, err := disk.Open(dir, cfg)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	_, bucket, _ := strings.Cut(o.Spec, ":")
	store, err := object.Open(ctx, b.JetStream(), object.Config{
		StoreConfig: cfg, Bucket: cmp.Or(bucket, b.BucketName(bus.BlobsBucket)), Records: b.BucketName(bus.ArtifactsBucket), Replicas: connection.Replicas,
	})
	return store, func() error { return nil }, err
}

// DiskStore is the default directory of a store on disk, in the data directory.
const DiskStore = "artifacts"

// Dir returns the directory of a store on disk.
func (o *StoreOptions) Dir(connection *cli.Connection) (dir string, ok bool) {
	kind, dir, _ := strings.Cut(o.Spec, ":")
	return cmp.Or(dir, filepath.Join(connection.Data, DiskStore)), kind == "disk"
}

// identity returns the spec of the store with its bucket or path, and a text that is the same for all processes
// with this store: hosts may see one directory under several paths, or several under one, so it is the time at
// which the directory became a store. That is "" if it is gone.
func (o *StoreOptions) identity(connection *cli.Connection, b *bus.Bus) (spec, id string) {
	dir, onDisk := o.Dir(connection)
	if !onDisk {
		_, bucket, _ := strings.Cut(o.Spec, ":")
		spec = "object:" + cmp.Or(bucket, b.BucketName(bus.BlobsBucket))
		return spec, spec
	}
	if path, err := filepath.Abs(dir); err == nil {
		dir = path
	}
	if info, err := os.Stat(filepath.Join(dir, durable.FormatFile)); err == nil { // written once
		id = info.ModTime().UTC().String()
	}
	return "disk:" + dir, id
}

// StateFile is the file in the data directory that has the last channels of the sessions.
const StateFile = "state.json"

// openState opens the state of this installation: a file next to an embedded
// server, or a bucket that all hosts share.
func openState(connection *cli.Connection, b *bus.Bus, log zerolog.Logger) (state.Store, error) {
	if connection.External() {
		return kv.New(b.API(), func(ctx context.Context) (jetstream.KeyValue, error) { return b.Bucket(ctx, bus.StateBucket) }), nil
	}
	return state.OpenFile(filepath.Join(connection.Data, StateFile), state.FileConfig{Log: log})
}
