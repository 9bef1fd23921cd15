package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// Embed starts the embedded server in a data directory and locks the directory
// until closeServer is called.
func Embed(cfg embedded.Config) (server *embedded.Server, closeServer func() error, err error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w; choose another one with --data", err)
	}
	lock, err := durable.LockDir(dir)
	if _, locked := errors.AsType[*durable.LockedError](err); locked {
		return nil, nil, fmt.Errorf("%w with --data", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w (--data)", err)
	}
	cfg.Dir = dir
	if err = openData(dir); err == nil {
		err = removeLeft(dir)
	}
	if err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	server, err = embedded.Start(cfg)
	if errors.Is(err, embedded.ErrAddressInUse) {
		err = fmt.Errorf("%w: --listen 127.0.0.1:0 picks a free one", err)
	}
	if err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	return server, func() error {
		server.Close()
		return lock.Unlock()
	}, nil
}

// removeLeft removes what PublishServer wrote for a process that was killed: the lock of the new one would make commands
// trust it.
func removeLeft(dir string) (err error) {
	for _, name := range []string{cli.URLFile, settingsFile} {
		if removed := os.Remove(filepath.Join(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}
