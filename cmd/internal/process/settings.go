package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// settingsFile has a digest of each setting of the worker that runs in the data directory, so
// that a command that joins it can say which of its own settings have no effect. Values may
// be secrets.
const settingsFile = "worker.settings"

const settingsVersion = 1

// workerSettings is the content of settingsFile.
type workerSettings struct {
	Version int               `json:"v"`
	Digests map[string]string `json:"digests"`
}

// PublishServer lets commands find the embedded server and the settings of its worker.
// withdraw removes both.
func (o *Options) PublishServer(url string) (withdraw func() error, err error) {
	settings := workerSettings{settingsVersion, map[string]string{}}
	for _, f := range o.settings {
		settings.Digests[f.Name] = digestOf(f)
	}
	data, _ := json.Marshal(settings) // texts do not fail
	name := filepath.Join(o.Connection.Data, settingsFile)
	if err := durable.WriteFile(name, data, 0o600); err != nil {
		return nil, fmt.Errorf("publish the settings of the worker: %w", err)
	}
	return o.Connection.PublishURL(url, name)
}

// CheckJoined returns an error if a setting of this command would have no effect: a worker
// runs in the data directory, with another value. Settings that the user did not give count
// as those of the worker.
func (o *Options) CheckJoined() error {
	data, err := os.ReadFile(filepath.Join(o.Connection.Data, settingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // that worker stops: it withdrew its settings with its URL, which the caller has read just before
	}
	var worker workerSettings
	if err == nil {
		err = json.Unmarshal(data, &worker)
	}
	if err == nil && worker.Version != settingsVersion {
		err = fmt.Errorf("%s has version %d of the format, and this program reads version %d; use the program that runs the worker",
			settingsFile, worker.Version, settingsVersion)
	}
	if err != nil {
		return fmt.Errorf("read the settings of the worker in the data directory: %w", err)
	}
	var differ []string
	for _, f := range o.settings {
		if f.Changed && worker.Digests[f.Name] != digestOf(f) {
			differ = append(differ, "--"+f.Name)
		}
	}
	if len(differ) > 0 {
		return cli.Exit(cli.ExitUsage, "another process runs the worker of the data directory %q, and its %s differs from yours, which "+
			"would have no effect; stop it, leave your setting out to use its tools, or name another directory with --data",
			o.Connection.Data, strings.Join(differ, ", "))
	}
	return nil
}

func digestOf(f *pflag.Flag) string {
	value := f.Value.String()
	if f.Name == "workspace" {
		if dir, err := filepath.Abs(value); err == nil {
			value = dir
		}
	}
	sum := sha256.Sum256([]byte(f.Name + "\x00" + value))
	return hex.EncodeToString(sum[:])
}
