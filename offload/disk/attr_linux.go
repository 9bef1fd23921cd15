package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stevedore-bus/stevedore/offload"
	"golang.org/x/sys/unix"
)

// setAttr sets an extended attribute of a file. A sync of the file makes it durable.
func setAttr(f *os.File, name string, data []byte) error {
	return unix.Fsetxattr(int(f.Fd()), name, data, 0)
}

// getAttr returns an attribute. It returns fs.ErrNotExist if there is none, and
// ErrCorrupt if it is longer than maxAttr.
func getAttr(f *os.File, name string) ([]byte, error) {
	data := make([]byte, maxAttr)
	n, err := unix.Fgetxattr(int(f.Fd()), name, data)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return nil, fs.ErrNotExist
	case errors.Is(err, unix.ERANGE):
		return nil, fmt.Errorf("attribute %q of %q: %w: too long for a record", name, f.Name(), offload.ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("read attribute %q of %q: %w", name, f.Name(), err)
	}
	return data[:n], nil
}
