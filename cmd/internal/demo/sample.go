package demo

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sampleLines is the number of lines of the sample.
const sampleLines = 20_000

// chooseWorkspace returns the workspace, or a sample below dir if the workspace is the default
// and has too few files, as after an installation.
func chooseWorkspace(workspace, dir string) (string, error) {
	if workspace != "." || !isSmall(workspace) {
		return workspace, nil
	}
	workspace = filepath.Join(dir, "sample")
	var log bytes.Buffer
	for i := range sampleLines {
		fmt.Fprintf(&log, "2026-01-01T%02d:%02d:%02dZ INFO request %d: GET /items/%d, 200, %d ms\n", i/3600, i/60%60, i%60, i, i*7%1000, i*13%90)
		if i%3_989 == 2_000 {
			fmt.Fprintf(&log, "2026-01-01T%02d:%02d:%02dZ ERROR the license server does not answer\n", i/3600, i/60%60, i%60)
		}
	}
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return "", err
	}
	return workspace, os.WriteFile(filepath.Join(workspace, "server.log"), log.Bytes(), 0o600)
}

// isSmall reports whether the files of a directory are too small for the demo.
func isSmall(dir string) bool {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error { // what cannot be read does not count
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				size += info.Size()
			}
		}
		if size > 2*minChars {
			return fs.SkipAll
		}
		return nil
	})
	return size <= 2*minChars
}
