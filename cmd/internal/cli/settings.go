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
	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	configFlag = "config" // names the settings file
	envPrefix  = "STEVEDORE_"
)

// envAliases are the variables of the nats CLI, and those of the older program picoclaw
// (PICOCLAW_HEARTBEAT_ENABLED). STEVEDORE_* wins over them.
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

// alternatives are flags of which one replaces the other: the flag from the source
// with the higher priority is used.
var alternatives = map[string]string{"server": "context", "context": "server"}

// isSet reports whether a source with a higher priority has set a flag or its
// alternative.
func isSet(flags *pflag.FlagSet, f *pflag.Flag) bool {
	other := flags.Lookup(alternatives[f.Name])
	return f.Changed || other != nil && other.Changed && other.Value.String() != ""
}

// AddConfigFlag adds --config. cmd and its children then also read their flags from
// the environment and from the settings file, as TopicSettings explains. Keys of the
// file may contain - or _.
func AddConfigFlag(cmd *cobra.Command) {
	Topic(cmd.PersistentFlags(), TopicSettings, func(flags *pflag.FlagSet) {
		flags.String(configFlag, "", "settings `FILE` (YAML); its keys are the names of the flags")
	})
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		known := allFlags(cmd.Root())
		warnOfTypos(cmd, known)
		return resolve(cmd.Flags(), known)
	}
}

// warnOfTypos prints a warning for each environment variable whose name is similar to
// that of a setting. Other unknown variables may be those of another program.
func warnOfTypos(cmd *cobra.Command, known []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		if !ours || slices.Contains(known, flag) || flag == configFlag {
			continue
		}
		if meant := similar(flag, known); meant != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: unknown environment variable %s; did you mean %s?\n", cmd.Root().Name(), name, EnvName(meant))
		}
	}
}

func resolve(flags *pflag.FlagSet, known []string) error {
	if flags.Changed("server") && flags.Changed("context") {
		return Exit(ExitUsage, "want either --server or --context")
	}
	if err := fromEnvironment(flags); err != nil {
		return err
	}
	file := flags.Lookup(configFlag)
	if file == nil || file.Value.String() == "" {
		return nil
	}
	return FromFile(flags, file.Value.String(), known)
}

// fromEnvironment reads our variables first, then the aliases.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	for _, name := range []func(string) string{EnvName, func(flag string) string { return envAliases[flag] }} {
		given := map[string]string{} // set after the loop, because a set flag hides its alternative
		flags.VisitAll(func(f *pflag.Flag) {
			value, ok := os.LookupEnv(name(f.Name))
			if ok && name(f.Name) != "" && f.Name != "help" && !isSet(flags, f) {
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

// EnvName returns the environment variable of a flag.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromFile sets the flags that are not set from a settings file. It refuses keys that are not
// known, because they are mostly typos.
func FromFile(flags *pflag.FlagSet, name string, known []string) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Exit(ExitUsage, "settings file %q does not exist", name)
	}
	if err != nil {
		return Exit(ExitUsage, "settings file: %w", err)
	}
	var settings map[string]setting
	if err := yaml.Unmarshal(data, &settings); err != nil {
		return Exit(ExitUsage, "settings file %q: %s", name, yaml.FormatError(err, false, false))
	}
	skip := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { skip[f.Name] = isSet(flags, f) })
	for key, values := range settings {
		flag := strings.ReplaceAll(key, "_", "-")
		if !slices.Contains(known, flag) {
			return Exit(ExitUsage, "settings file %q: unknown setting %q%s; known are %s", name, key, DidYouMean(flag, known), strings.Join(known, ", "))
		}
		if values == nil {
			return Exit(ExitUsage, "settings file %q: %s: the value is missing; an empty one is \"\"", name, key)
		}
		if flags.Lookup(flag) == nil || skip[flag] {
			continue
		}
		for _, value := range values {
			if err := flags.Set(flag, value); err != nil {
				return Exit(ExitUsage, "settings file %q: %s: %w", name, key, err)
			}
		}
	}
	return nil
}

// setting is a value, or those of a list, as they are written: YAML would read the password 0123 as the
// number 83. It is nil if the value is missing.
type setting []string

func (s *setting) UnmarshalYAML(node ast.Node) error {
	nodes := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		nodes = list.Values
	}
	*s = setting{}
	for _, n := range nodes {
		if tag, ok := n.(*ast.TagNode); ok { // such as !!str
			n = tag.Value
		}
		switch n := n.(type) {
		case *ast.LiteralNode:
			*s = append(*s, n.Value.Value)
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			*s = append(*s, n.GetToken().Value)
		default:
			return fmt.Errorf("line %d: want a value or a list of values, not %s", n.GetToken().Position.Line, n)
		}
	}
	return nil
}

// Inherit sets the flags that are not set to the values that the same flags of base were given.
func Inherit(flags, base *pflag.FlagSet) (err error) {
	base.VisitAll(func(f *pflag.Flag) {
		own := flags.Lookup(f.Name)
		if err != nil || !f.Changed || own == nil || isSet(flags, own) {
			return
		}
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			err = flags.Set(f.Name, f.Value.String())
			return
		}
		own.Changed = true
		err = own.Value.(pflag.SliceValue).Replace(list.GetSlice()) // both have the same type
	})
	return err
}

// allFlags returns the names of all settings, sorted.
func allFlags(root *cobra.Command) (names []string) {
	visitFlags(root, func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != configFlag {
			names = append(names, f.Name)
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// visitFlags calls f with each flag of cmd and of its subcommands.
func visitFlags(cmd *cobra.Command, f func(*pflag.Flag)) {
	cmd.Flags().VisitAll(f)
	cmd.PersistentFlags().VisitAll(f)
	for _, child := range cmd.Commands() {
		visitFlags(child, f)
	}
}
