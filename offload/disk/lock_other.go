//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// flock says that the disk store needs locks between processes, which this
// system does not offer in a form that we use. Use an object store here.
func flock(context.Context, *os.File) error {
	return fmt.Errorf("lock the artifact directory: %w", errors.ErrUnsupported)
}

func funlock(*os.File) error { return errors.ErrUnsupported }

const noFollow = 0

func isDiskFull(error) bool { return false }

func cannotLink(error) bool { return true }
