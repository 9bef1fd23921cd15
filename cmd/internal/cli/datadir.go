package cli

import (
	"os"
	"os/user"
	"path/filepath"
)

// DefaultDataDir returns a directory below the user's data directory (XDG), or "" for a user
// without a home.
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
		return ""
	}
	return filepath.Join(home, ".local", "share", "stevedore")
}
