package serverconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// File is the name of the configuration.
const File = "nats-server.conf"

// settingsFile has the settings of the last Write, in JSON.
const settingsFile = "settings.json"

// settings is the content of settingsFile.
type settings struct {
	Version int `json:"v"` // 1; the first files have none
	Config
}

// Read returns the Config that Write was given for a directory; ok is false if the directory has no
// configuration.
func Read(dir string) (c Config, ok bool, err error) {
	path := filepath.Join(dir, settingsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, File)); err == nil {
			return c, true, fmt.Errorf("%s has a configuration of an earlier version, which does not say for which tenants it is", dir)
		}
		return c, false, nil
	}
	if err != nil {
		return c, true, err
	}
	var stored settings
	if err := json.Unmarshal(data, &stored); err != nil {
		return c, true, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if stored.Version > 1 {
		return c, true, fmt.Errorf("%s has version %d, and this program reads version 1; use the program that wrote it", path, stored.Version)
	}
	return stored.Config, true, nil
}

// Written is a file that Write made or found.
type Written struct {
	// Seed is the file of the user's secret key (bus.Config.NKey).
	Seed string
	// New reports that the key was made now.
	New bool
}

// Write writes the configuration and one file with a secret key for each user into dir,
// which only its owner can read. It keeps the keys that exist: to replace a key, delete
// its file. It does not replace a configuration that it did not write.
func Write(dir string, c Config) ([]Written, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, File)
	old, err := os.ReadFile(path)
	if err == nil && !strings.HasPrefix(string(old), header) {
		return nil, fmt.Errorf("%s was not written by this command; choose another directory, or remove the file", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	keys := map[string]string{}
	var all []Written
	for _, u := range c.Users() {
		w := Written{Seed: filepath.Join(dir, u.Name+".nk")}
		if keys[u.Name], w.New, err = key(w.Seed); err != nil {
			return all, fmt.Errorf("key of %s: %w", u.Name, err)
		}
		all = append(all, w)
	}
	data, err := json.MarshalIndent(settings{1, c}, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, settingsFile), data, 0o600)
	}
	if err == nil { // a crash before loses nothing: the next Write reads the settings
		err = durable.WriteFile(path, []byte(c.Text(keys)), 0o600)
	}
	return all, err
}

// key returns the public key of the seed in the file, which it makes if there is none.
func key(path string) (public string, isNew bool, err error) {
	seed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		pair, err := nkeys.CreateUser()
		if err != nil {
			return "", false, err
		}
		seed, err := pair.Seed()
		if err == nil {
			err = durable.WriteFile(path, append(seed, '\n'), 0o600)
		}
		if err != nil {
			return "", false, err
		}
		public, err = pair.PublicKey()
		return public, true, err
	} else if err != nil {
		return "", false, err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", false, fmt.Errorf("%s holds no seed of a user: %w", path, err)
	}
	public, err = pair.PublicKey()
	return public, false, err
}
