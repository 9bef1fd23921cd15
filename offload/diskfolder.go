package offload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// folder is an open directory of the store, so that a Put need not walk to it
// for each thing that it does there. It is opened under the root, and names in
// it are single and no link is followed: as with os.Root, nothing leads out.
type folder struct{ *os.File }

// inside fails for what is not a name of a file in a directory. A record that
// somebody else wrote can name anything.
func inside(names ...string) error {
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return fmt.Errorf("%q is not a name in a directory", name)
		}
	}
	return nil
}

// create creates a file for reading and writing; it must not be there.
func (d folder) create(name string, mode fs.FileMode) (*os.File, error) {
	if err := inside(name); err != nil {
		return nil, err
	}
	return openAt(d.File, name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

// open opens a regular file for reading, and nothing else.
func (d folder) open(name string) (*os.File, fs.FileInfo, error) {
	if err := inside(name); err != nil {
		return nil, nil, err
	}
	f, err := openAt(d.File, name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// rename moves a file to another folder, in place of what has the name.
func (d folder) rename(name string, to folder, as string) error {
	if err := inside(name, as); err != nil {
		return err
	}
	return renameAt(d.File, name, to.File, as)
}

// link gives a file another name, which must be free.
func (d folder) link(name string, to folder, as string) error {
	if err := inside(name, as); err != nil {
		return err
	}
	return linkAt(d.File, name, to.File, as)
}
