package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
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

// Owner returns the user that owns a directory or, if this user may not look at it, the one above it, as a word of a
// shell. It is USER if the system does not tell.
func Owner(dir string) string {
	info, err := os.Stat(dir)
	if err != nil && dir != filepath.Dir(dir) {
		return Owner(filepath.Dir(dir))
	} else if err != nil {
		return "USER"
	}
	uid := reflect.Indirect(reflect.ValueOf(info.Sys())).FieldByName("Uid")
	if !uid.IsValid() { // Windows
		return "USER"
	}
	id := strconv.FormatUint(uid.Uint(), 10)
	if u, err := user.LookupId(id); err == nil {
		return ShellWord(u.Username)
	}
	return "'#" + id + "'" // the form of sudo
}
