package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// DefaultDataDir returns a directory below the user's data directory (XDG).
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
		return tempDataDir()
	}
	return filepath.Join(home, ".local", "share", "stevedore")
}

// tempDataDir is for a user without a home, as in containers. Other users can also
// create it: see ownDir.
func tempDataDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprint("stevedore-", os.Getuid()))
}

// ownDir creates a directory for this user only. It refuses a directory that another
// user can access, because a user that writes credentials or calls can run tools.
func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !isOwner(info) {
		return fmt.Errorf("the directory %q is not trusted, because other users can access it", dir)
	}
	return nil
}
