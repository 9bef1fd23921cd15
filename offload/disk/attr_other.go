//go:build !linux

package disk

import (
	"errors"
	"io/fs"
	"os"
)

// setAttr says that records have files of their own here.
func setAttr(*os.File, string, []byte) error { return errors.ErrUnsupported }

func getAttr(*os.File, string) ([]byte, error) { return nil, fs.ErrNotExist }
