package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stevedore-bus/stevedore/offload"
	"golang.org/x/sys/unix"
)

// setAttr sets an extended attribute of a file, which a sync then makes durable
// together with the rest.
func setAttr(f *os.File, name string, data []byte) error {
	return unix.Fsetxattr(int(f.Fd()), name, data, 0)
}

// getAttr returns an attribute of at most maxAttr bytes. fs.ErrNotExist; a longer
// one is ErrCorrupt.
func getAttr(f *os.File, name string) ([]byte, error) {
	data := make([]byte, maxAttr)
	n, err := unix.Fgetxattr(int(f.Fd()), name, data)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return nil, fs.ErrNotExist
	case errors.Is(err, unix.ERANGE):
		return nil, fmt.Errorf("attribute %q of %q: %w: no record is so long", name, f.Name(), offload.ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("read attribute %q of %q: %w", name, f.Name(), err)
	}
	return data[:n], nil
}
