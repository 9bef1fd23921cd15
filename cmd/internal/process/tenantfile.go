package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// The files of a tenant. The settings have the names of the flags; what they do not set is as the
// flags of the process say.
const (
	credsFile   = ".creds" // the credential: a credentials file of NATS
	seedFile    = ".nk"    // the credential: the seed of an nkey
	settingsExt = ".yaml"
)

var (
	// tenantSettings are settings that tenants do not share.
	tenantSettings = []string{"channel", "default-channel", "receive", "receive-listen"}
	// processSettings are settings that a tenant does not have.
	processSettings = []string{"data", "health", "log-level", "log-format", "name"}
)

// tenantFiles are the files of a tenant. If they change, the tenant starts again: a replaced
// credential may be that of another account.
type tenantFiles struct {
	credential string // path; "" if the settings name one
	settings   string // path, or ""
	states     [2]fileState
	problem    string // or ""
}

// fileState tells whether a file was changed.
type fileState struct {
	changed time.Time
	size    int64
}

// maxTenantFile limits a file of a tenant, in bytes: a damaged one must not fill the memory of all.
const maxTenantFile = 64 << 10

// readTenantFiles returns the files in a directory by the names of their tenants. It skips hidden
// files.
func readTenantFiles(dir string) (map[string]tenantFiles, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]tenantFiles{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		kind := filepath.Ext(path)
		name := strings.TrimSuffix(e.Name(), kind)
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		files := all[name]
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist): // it was removed just now
			continue
		case err != nil:
			files.problem = err.Error()
		case !info.Mode().IsRegular() || !slices.Contains([]string{credsFile, seedFile, settingsExt}, kind):
			name, files = e.Name(), tenantFiles{problem: "want a file NAME.creds, NAME.nk or NAME.yaml"}
		case !tools.IsToken(name):
			files.problem = "the name of a tenant has the form " + tools.TokenForm
		case info.Size() > maxTenantFile:
			files.problem = fmt.Sprintf("%s has more than %d bytes", e.Name(), maxTenantFile)
		case kind == settingsExt:
			files.settings, files.states[1] = path, fileState{info.ModTime(), info.Size()}
		case files.credential != "":
			files.problem = "it has two credentials, NAME.creds and NAME.nk"
		default:
			files.credential, files.states[0] = path, fileState{info.ModTime(), info.Size()}
		}
		all[name] = files
	}
	return all, nil
}

// read returns the settings of a tenant. base are the flags of the process.
func (f tenantFiles) read(base *pflag.FlagSet) (o *Options, ownWorkspace bool, err error) {
	if f.problem != "" {
		return nil, false, errors.New(f.problem)
	}
	o = new(Options)
	flags := pflag.NewFlagSet("tenant", pflag.ContinueOnError)
	o.AddFlags(flags)
	o.settings = nil // they take memory, and only PublishServer needs them
	if f.settings != "" {
		known := cli.Names{}
		flags.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(processSettings, f.Name) {
				known.Settings = append(known.Settings, f.Name)
			}
		})
		if err := cli.FromFile(flags, f.settings, known); err != nil {
			return nil, false, err
		}
	}
	ownWorkspace = flags.Changed("workspace")
	o.Channels.noConsole = true
	if err := cli.Inherit(flags, base); err != nil {
		return nil, false, err
	}
	o.NotifyIfAsked(flags)
	return o, ownWorkspace, o.useCredential(f.credential)
}

// EachTenant calls do for each tenant of a directory, in the order of the names, with its
// connection or with why it has none. flags are those of the process.
func EachTenant(dir string, flags *pflag.FlagSet, do func(name string, c *cli.Connection, err error)) error {
	found, err := readTenantFiles(dir)
	if err != nil {
		return cli.Exit(cli.ExitUsage, "--tenants: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		o, _, err := found[name].read(flags)
		if err != nil {
			o = new(Options)
		}
		do(name, &o.Connection, err)
	}
	return nil
}

// options returns the settings of the tenant, and gives it its workspace. leaveWorkspace follows.
func (t *tenant) options() (*Options, error) {
	o, ownWorkspace, err := t.files.read(t.fleet.flags)
	if err != nil {
		return nil, err
	}
	o.tenant = t
	if !ownWorkspace {
		o.Workspace = filepath.Join(o.Workspace, t.name)
		if err := os.MkdirAll(o.Workspace, 0o700); err != nil {
			return nil, fmt.Errorf("make the workspace: %w", err)
		}
	}
	if err := o.checkTenant(); err != nil {
		return nil, err
	}
	o.Connection.Config = o.BusConfig(t.log)
	return o, t.takeWorkspace(o.Workspace)
}

// useCredential uses the file with the credential of a tenant.
func (o *Options) useCredential(path string) error {
	c := &o.Connection
	named := c.Creds+c.NKey+c.User+c.Token+c.Context != ""
	switch {
	case named && path != "":
		return fmt.Errorf("its settings name a credential, and so does %s", filepath.Base(path))
	case !named && path == "":
		return errors.New("it has no credential: put NAME.creds or NAME.nk beside NAME.yaml")
	case filepath.Ext(path) == credsFile:
		c.Creds = path
	case path != "":
		c.NKey = path
	}
	return nil
}

// checkTenant returns an error if the settings are invalid, or let others see what is the tenant's.
func (o *Options) checkTenant() error {
	if _, disk := o.Store.Dir(&o.Connection); disk {
		return errors.New("--store: the artifacts of a tenant are on its bus; want object:BUCKET")
	}
	if o.Shell.Mode != string(sandbox.Required) {
		return fmt.Errorf("--shell-sandbox %s: without the sandbox, commands of one tenant see the files and credentials of the others; want required", o.Shell.Mode)
	}
	if specs, err := o.Channels.Specs(); err == nil && len(o.Channels.Given) > 0 && !o.NoNotify && specs[o.Channels.Default] == "" {
		return fmt.Errorf("--default-channel %s: want one of the channels of the tenant", o.Channels.Default)
	}
	return o.Check()
}

// secretDirs are the directories that commands and tools must not see.
func (o *Options) secretDirs() []string {
	dirs := []string{o.Connection.Data}
	if o.tenant != nil {
		dirs = append(dirs, o.tenant.fleet.dir)
	}
	return dirs
}

// takeWorkspace returns an error if the workspace shares files with that of another tenant.
func (t *tenant) takeWorkspace(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fmt.Errorf("--workspace: %w", err)
	}
	t.fleet.mu.Lock()
	defer t.fleet.mu.Unlock()
	for _, other := range t.fleet.tenants {
		if other != t && other.workspace != "" && (builtin.Inside(dir, other.workspace) || builtin.Inside(other.workspace, dir)) {
			return fmt.Errorf("--workspace %s: the tenant %q works in %s", dir, other.name, other.workspace)
		}
	}
	t.workspace = dir
	return nil
}

// leaveWorkspace ends takeWorkspace.
func (t *tenant) leaveWorkspace() {
	t.fleet.mu.Lock()
	defer t.fleet.mu.Unlock()
	t.workspace = ""
}
