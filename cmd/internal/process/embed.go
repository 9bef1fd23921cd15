package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// Embed starts the embedded server in a data directory and locks the directory
// until closeServer is called.
func Embed(dir, listen string, noSync bool, log zerolog.Logger) (server *embedded.Server, closeServer func() error, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w; choose another one with --data", err)
	}
	lock, err := durable.LockDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w with --data", err)
	}
	if err := openData(dir, log); err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	server, err = embedded.Start(embedded.Config{Dir: dir, Listen: listen, NoSync: noSync, Log: log})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	return server, func() error {
		server.Close()
		return lock.Unlock()
	}, nil
}
