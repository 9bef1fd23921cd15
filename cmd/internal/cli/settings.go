package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configFlag names the settings file.
const configFlag = "config"

// envAliases are the variables that others made customary: those of the nats
// CLI, and picoclaw's. STEVEDORE_* wins over them.
var envAliases = map[string]string{
	"server":            "NATS_URL",
	"context":           "NATS_CONTEXT",
	"creds":             "NATS_CREDS",
	"user":              "NATS_USER",
	"password":          "NATS_PASSWORD",
	"token":             "NATS_TOKEN",
	"nkey":              "NATS_NKEY",
	"tlscert":           "NATS_CERT",
	"tlskey":            "NATS_KEY",
	"tlsca":             "NATS_CA",
	"timeout":           "NATS_TIMEOUT",
	"inbox-prefix":      "NATS_INBOX_PREFIX",
	"heartbeat-enabled": "PICOCLAW_HEARTBEAT_ENABLED",
}

// either are two flags that say the same in two ways, where the bus is: the one
// from the higher source counts, and nothing is left of the other one.
var either = map[string]string{"server": "context", "context": "server"}

// settled reports whether a higher source has spoken about a flag.
func settled(flags *pflag.FlagSet, f *pflag.Flag) bool {
	other := flags.Lookup(either[f.Name])
	return f.Changed || other != nil && other.Changed && other.Value.String() != ""
}

// AddConfigFlag adds --config and makes cmd and its children take settings, in
// rising order, from defaults, the file, the environment and flags. A setting
// is a flag: the file's keys are the flags' names, with - or _, and the
// environment's STEVEDORE_ and the name in upper case.
func AddConfigFlag(cmd *cobra.Command) {
	Topic(cmd.PersistentFlags(), TopicSettings, func(flags *pflag.FlagSet) {
		flags.String(configFlag, "", "settings `FILE` (YAML); its keys are the names of the flags")
	})
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return resolve(cmd.Flags(), cmd.Root())
	}
}

func resolve(flags *pflag.FlagSet, root *cobra.Command) error {
	if flags.Changed("server") && flags.Changed("context") {
		return Exit(ExitUsage, "--server and --context name two places; name one of them")
	}
	if err := fromEnvironment(flags); err != nil {
		return err
	}
	file := flags.Lookup(configFlag)
	if file == nil || file.Value.String() == "" {
		return nil
	}
	return fromFile(flags, file.Value.String(), allFlags(root))
}

// fromEnvironment takes our own variables first, and then those of others for
// what is left.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	for _, name := range []func(string) string{EnvName, func(flag string) string { return envAliases[flag] }} {
		given := map[string]string{} // first all are looked up: none settles another one of its kind
		flags.VisitAll(func(f *pflag.Flag) {
			value, ok := os.LookupEnv(name(f.Name))
			if ok && name(f.Name) != "" && f.Name != "help" && !settled(flags, f) {
				given[f.Name] = value
			}
		})
		for _, flag := range slices.Sorted(maps.Keys(given)) {
			if err := flags.Set(flag, given[flag]); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", name(flag), err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &Error{Code: ExitUsage, Err: err}
	}
	return nil
}

// EnvName is the environment variable of a flag.
func EnvName(flag string) string {
	return "STEVEDORE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromFile refuses keys that no command knows, because they are mostly typos;
// those of other commands are fine, one file serves all.
func fromFile(flags *pflag.FlagSet, name string, known map[string]bool) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Exit(ExitUsage, "settings file %q does not exist", name)
	}
	if err != nil {
		return Exit(ExitUsage, "settings file: %w", err)
	}
	var settings map[string]any
	if err := yaml.Unmarshal(data, &settings); err != nil {
		return Exit(ExitUsage, "settings file %q: %s", name, yaml.FormatError(err, false, false))
	}
	taken := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { taken[f.Name] = settled(flags, f) })
	for key, value := range settings {
		flag := strings.ReplaceAll(key, "_", "-")
		if !known[flag] {
			return Exit(ExitUsage, "settings file %q: unknown setting %q; known are %s", name, key, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if flags.Lookup(flag) == nil || taken[flag] {
			continue
		}
		if err := setAny(flags, flag, value); err != nil {
			return Exit(ExitUsage, "settings file %q: %s: %w", name, key, err)
		}
	}
	return nil
}

func setAny(flags *pflag.FlagSet, flag string, value any) error {
	list, ok := value.([]any)
	if !ok {
		return flags.Set(flag, fmt.Sprint(value))
	}
	for _, item := range list {
		if err := flags.Set(flag, fmt.Sprint(item)); err != nil {
			return err
		}
	}
	return nil
}

func allFlags(root *cobra.Command) map[string]bool {
	known := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		note := func(f *pflag.Flag) { known[f.Name] = true }
		cmd.Flags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(root)
	delete(known, "help")
	delete(known, configFlag)
	return known
}
