package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// DefaultDataDir is below the user's data directory, as XDG and the systems
// have it.
func DefaultDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stevedore")
	}
	home, err := os.UserHomeDir()
	if err != nil { // services often have no environment
		if u, err := user.Current(); err == nil {
			home = u.HomeDir
		}
	}
	if !filepath.IsAbs(home) {
		return homelessDataDir()
	}
	return filepath.Join(home, ".local", "share", "stevedore")
}

// homelessDataDir is for a user without a home, as in containers. Others can
// make directories there too: see ownDir.
func homelessDataDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprint("stevedore-", os.Getuid()))
}

// ownDir makes a directory that only this user can enter, and refuses one that
// is not. Who put a credential there, or calls, could run tools.
func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !isOwner(info) {
		return fmt.Errorf("the directory %q is not this user's alone, so what is in it is not trusted", dir)
	}
	return nil
}
