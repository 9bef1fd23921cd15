package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

const (
	// watchInterval is the pause between two looks at a disk, busWatchInterval at a store on the bus,
	// which costs the server a request.
	watchInterval    = 2 * time.Second
	busWatchInterval = 30 * time.Second
)

// every calls look, at once and then after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, look func()) error {
	for look(); tools.Sleep(ctx, interval) == nil; look() {
	}
	return nil
}

// watchStore reports a store that cannot be read, and that it can be read again, also if nothing uses it.
func watchStore(ctx context.Context, store offload.Store, onDisk bool) error {
	interval, failed := busWatchInterval, false
	if onDisk {
		interval = watchInterval
	}
	return every(ctx, interval, func() {
		_, err := store.Get(ctx, "watch", "watch")
		if errors.Is(err, offload.ErrNotFound) || errors.Is(err, offload.ErrExpired) {
			err = nil
		}
		if err != nil || failed { // otherwise a failed write stays reported until a write succeeds
			trouble.Report(ctx, trouble.Store, "", err)
		}
		failed = err != nil
		if onDisk, ok := store.(interface{ Replaced() error }); ok {
			trouble.Report(ctx, trouble.Replaced, "", onDisk.Replaced())
		}
	})
}

// watchOpenFiles reports a limit that lets commands and connections fail under load.
func watchOpenFiles(ctx context.Context) error {
	return every(ctx, busWatchInterval, func() { trouble.Report(ctx, trouble.OpenFiles, "", limited.CheckOpenFiles()) })
}

// watchPermissions reports what the server refuses.
func watchPermissions(ctx context.Context, b *bus.Bus) error {
	var reported []string
	return every(ctx, watchInterval, func() {
		denied := b.Denied()
		for _, what := range denied {
			trouble.Report(ctx, trouble.Permission, what, fmt.Errorf("it may not %s", what))
		}
		for _, what := range reported {
			if !slices.Contains(denied, what) {
				trouble.Report(ctx, trouble.Permission, what, nil)
			}
		}
		reported = denied
	})
}

// failures returns what fails, without what a refused permission explains.
func failures(r *trouble.Register) []trouble.Failure {
	list := r.List()
	if !slices.ContainsFunc(list, func(f trouble.Failure) bool { return f.Kind == trouble.Permission && Stops(f.Kind, f.Name) }) {
		return list
	}
	return slices.DeleteFunc(list, func(f trouble.Failure) bool {
		return f.Kind.NeedsStreams() || f.Kind == trouble.Store && (bus.IsOutage(f.Err) || errors.Is(f.Err, jetstream.ErrAsyncPublishTimeout))
	})
}

// housekeeping is in the names of the permissions that calls go on without.
const housekeeping = " $JS.API.STREAM."

// Stops reports whether a process with a failure cannot do its work.
func Stops(kind trouble.Kind, name string) bool {
	return kind.Stops() && !(kind == trouble.Permission && strings.Contains(name, housekeeping))
}

// watchWorkspace reports a directory of the tools that was removed or replaced: they keep the one of before open.
func watchWorkspace(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	before, err := os.Stat(dir)
	if err != nil {
		return nil // the tools have reported it
	}
	return every(ctx, watchInterval, func() {
		now, failed := os.Stat(dir)
		if failed == nil && !os.SameFile(before, now) {
			failed = fmt.Errorf("%s was replaced", dir)
		}
		trouble.Report(ctx, trouble.Workspace, "", failed)
	})
}

// watchDisk reports that the server of this process stores nothing, or soon will not, or where nobody finds it.
func watchDisk(ctx context.Context, server *embedded.Server) error {
	return every(ctx, watchInterval, func() {
		trouble.Report(ctx, trouble.Directory, "", server.CheckDir())
		trouble.Report(ctx, trouble.Disk, "", server.CheckDisk())
	})
}
