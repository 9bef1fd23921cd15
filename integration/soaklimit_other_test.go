//go:build !linux

package integration

import "errors"

func limitFiles(int, uint64) error { return errors.New("only on Linux") }

func ignoreFileLimit() {}
