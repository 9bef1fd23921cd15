//go:build !linux

package disk

import (
	"errors"
	"io/fs"
	"os"
)

// setAttr fails, so that the store writes a file for each record.
func setAttr(*os.File, string, []byte) error { return errors.ErrUnsupported }

func getAttr(*os.File, string) ([]byte, error) { return nil, fs.ErrNotExist }
