package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// serviceDir is the data directory of the shipped unit, which only root can enter.
const serviceDir = "/var/lib/stevedore/bus"

// runningDir returns the data directory whose server a command uses, and whether one runs there: own or, for root
// without a server in the default directory, that of the service. A process that starts a server never takes
// the one of the service.
func runningDir(own, service string, root bool) (dir string, running bool, err error) {
	running, err = durable.DirLocked(own)
	if running || err != nil || !root || own != DefaultDataDir() {
		return own, running, err
	}
	if serves, err := durable.DirLocked(service); err == nil && serves {
		return service, true, nil
	}
	return own, false, nil
}

// hadServer reports whether the commands for a data directory use a server that runs, or that has run there.
func hadServer(own, service string, root bool) bool {
	if _, running, _ := runningDir(own, service, root); running {
		return true
	}
	_, err := os.Stat(filepath.Join(own, "jetstream"))
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// ServiceHint says how a user who has no server reaches the service of this machine, if there is one.
func ServiceHint() string { return serviceHint(serviceDir, os.Geteuid() == 0) }

func serviceHint(service string, root bool) string {
	if _, err := os.Lstat(filepath.Dir(service)); err != nil || root {
		return ""
	}
	return "; the service of this machine has its data in " + service + ", which only root may read: use sudo"
}
