package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	configFlag = "config" // names the settings file
	envPrefix  = "STEVEDORE_"
)

// alternatives are flags of which one replaces the other: the flag from the source
// with the higher priority is used.
var alternatives = map[string]string{"server": "context", "context": "server"}

// isSet reports whether a source with a higher priority has set a flag or its
// alternative.
func isSet(flags *pflag.FlagSet, f *pflag.Flag) bool {
	other := flags.Lookup(alternatives[f.Name])
	return f.Changed || other != nil && other.Changed && other.Value.String() != ""
}

// AddConfigFlag adds --config. cmd and its children then also read their settings from the
// environment and from the settings file, as TopicSettings explains. Keys of the file may
// contain - or _.
func AddConfigFlag(cmd *cobra.Command) {
	AddSettings(cmd.PersistentFlags(), &struct {
		Config string `flag:"config" unit:"FILE" topic:"settings" help:"settings FILE (YAML); its keys are the names of the settings"`
	}{})
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkHelp(cmd); err != nil {
			return err
		}
		known := namesOf(cmd.Root())
		warn := func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.Root().Name(), text) }
		known.checkEnvironment(cmd.Flags(), warn)
		return resolve(cmd.Flags(), known)
	}
}

// Names are the names of flags.
type Names struct {
	Settings, Options []string
}

// namesOf returns the names of the flags of cmd and of its subcommands. A setting may have the
// name of an option of another command.
func namesOf(cmd *cobra.Command) (n Names) {
	visitFlags(cmd, func(f *pflag.Flag) {
		switch {
		case f.Name == "help" || f.Name == configFlag:
		case isSetting(f):
			n.Settings = append(n.Settings, f.Name)
		default:
			n.Options = append(n.Options, f.Name)
		}
	})
	return n
}

// checkEnvironment warns of the variables that set nothing: those of options, and those whose name
// is similar to that of a setting. Other unknown variables may be those of another program.
func (n Names) checkEnvironment(flags *pflag.FlagSet, warn func(string)) {
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		own := flags.Lookup(flag)
		switch isOption := own != nil && !isSetting(own); {
		case flag == configFlag || flag == "help", !isOption && slices.Contains(n.Settings, flag):
		case isOption, slices.Contains(n.Options, flag):
			warn(fmt.Sprintf("%s has no effect: --%s is an option of one action, which only the command line sets", name, flag))
		default:
			if meant := tools.Nearest(flag, n.Settings); meant != "" {
				warn(fmt.Sprintf("unknown environment variable %s; did you mean %s?", name, envName(meant)))
			}
		}
	}
}

func resolve(flags *pflag.FlagSet, known Names) error {
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

// fromEnvironment reads our variables first, then those of other programs. An empty variable
// counts as not set.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	for _, nameOf := range []func(*pflag.Flag) string{
		func(f *pflag.Flag) string { return envName(f.Name) },
		func(f *pflag.Flag) string { return strings.Join(f.Annotations[envAnnotation], "") },
	} {
		given := map[*pflag.Flag]string{} // set after the loop, because a set flag hides its alternative
		flags.VisitAll(func(f *pflag.Flag) {
			if value := os.Getenv(nameOf(f)); value != "" && isSetting(f) && !isSet(flags, f) {
				given[f] = value
			}
		})
		for f, value := range given {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", nameOf(f), reason(err)))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return &Error{Code: ExitUsage, Err: errors.Join(errs...)}
}

// wants says what the values of a type of flags look like. The libraries say it in terms of Go.
var wants = map[string]string{
	"int": "want a whole number", "int64": "want a whole number", "bool": "want true or false",
	"duration": "want a duration such as 90s, 1h30m or 7d",
}

// reason returns why a flag refuses a value, without the name of the flag.
func reason(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	cause := invalid.Unwrap()
	_, isNumber := errors.AsType[*strconv.NumError](cause)
	if want := wants[invalid.GetFlag().Value.Type()]; want != "" && (isNumber || strings.HasPrefix(cause.Error(), "time: ")) {
		cause = errors.New(want)
	}
	return fmt.Errorf("%q: %w", invalid.GetValue(), cause)
}

// envName returns the environment variable of a setting.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromFile sets the settings that are not set from a settings file. It refuses keys that are not
// known, because they are mostly typos.
func FromFile(flags *pflag.FlagSet, name string, known Names) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Exit(ExitUsage, "settings file %q does not exist", name)
	}
	if err != nil {
		return Exit(ExitUsage, "settings file: %w", err)
	}
	var settings map[string]setting
	if len(data) > maxSettings {
		return Exit(ExitUsage, "settings file %q: it has more than %d KiB", name, maxSettings>>10)
	}
	var root yaml.Node
	err = yaml.Unmarshal(data, &root)
	if len(root.Content) > 0 {
		if root.Content[0].Kind != yaml.MappingNode && root.Content[0].Tag != "!!null" {
			return Exit(ExitUsage, "settings file %q: want lines with the name of a setting, a colon and a value, such as \"slots: 8\"", name)
		}
		err = root.Decode(&settings)
	}
	if err != nil {
		return Exit(ExitUsage, "settings file %q: %w", name, err)
	}
	skip := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { skip[f.Name] = !isSetting(f) || isSet(flags, f) })
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		flag, values := strings.ReplaceAll(key, "_", "-"), settings[key]
		switch isKnown := slices.Contains(known.Settings, flag); {
		case !isKnown && slices.Contains(known.Options, flag):
			return Exit(ExitUsage, "settings file %q: %q is no setting: --%s is an option of one action, which only the command line sets", name, key, flag)
		case !isKnown:
			return Exit(ExitUsage, "settings file %q: unknown setting %q%s", name, key, tools.DidYouMean(flag, known.Settings))
		case values == nil:
			return Exit(ExitUsage, "settings file %q: %s: the value is missing; an empty one is \"\"", name, key)
		}
		f := flags.Lookup(flag)
		if f == nil || skip[flag] {
			continue
		}
		if flags.Lookup(configFlag) != nil { // otherwise it is the file of a tenant
			annotate(f, fileAnnotation, name)
		}
		for _, value := range values {
			if err := flags.Set(flag, value); err != nil {
				return Exit(ExitUsage, "settings file %q: %s: %w", name, key, reason(err))
			}
		}
	}
	return nil
}

// maxSettings is how many bytes a settings file may have.
const maxSettings = 256 << 10

// setting is a value, or those of a list, as they are written: YAML would read the password 0123 as the
// number 83. It is nil if the value is missing.
type setting []string

func (s *setting) UnmarshalYAML(node *yaml.Node) error {
	nodes := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	*s = setting{}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			return fmt.Errorf("line %d: want a value or a list of values", n.Line)
		}
		*s = append(*s, n.Value)
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

// visitFlags calls f with each flag of cmd and of its subcommands.
func visitFlags(cmd *cobra.Command, f func(*pflag.Flag)) {
	cmd.Flags().VisitAll(f)
	cmd.PersistentFlags().VisitAll(f)
	for _, child := range cmd.Commands() {
		visitFlags(child, f)
	}
}

// checkHelp refuses a --help that a flag before it took for its value.
func checkHelp(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if value := strings.Trim(f.Value.String(), "[]"); value == "--help" || value == "-h" {
			err = Exit(ExitUsage, "--%s needs a value; see %s --help", f.Name, cmd.CommandPath())
		}
	})
	return err
}
