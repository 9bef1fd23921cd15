package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	// settingAnnotation marks the flags that are settings.
	settingAnnotation = "stevedore_setting"
	// envAnnotation has the variable of another program that also sets a setting, or nothing.
	envAnnotation = "stevedore_env"
	// fileAnnotation has the settings file that set a setting.
	fileAnnotation = "stevedore_file"
)

// AddSettings adds a flag for each setting of a process: a field of the struct that settings
// points to, with these tags.
//
//	flag     its name on the command line and in the settings file; envName is its variable
//	short    one letter for the command line
//	env      a variable of another program that also sets it
//	unit     the word of the help that stands for the value, or a word to put before the help
//	default  the default, as a user would write it; otherwise the value of the field
//	min      the least number or time
//	oneof    the allowed texts, separated by commas
//	split    "," if one value of a list has several elements
//	topic    the topic of the help
//	help     what it does
//
// An embedded struct, and a struct with the tag topic, contain more settings. A field may also
// be a pflag.Value.
func AddSettings(flags *pflag.FlagSet, settings any) {
	Settings(flags, func(flags *pflag.FlagSet) { AddOptions(flags, settings) })
}

// AddSettingsOf is AddSettings for the configuration of a library, which knows no flags: declared
// has the tags, and the fields of the same names in config have the values.
func AddSettingsOf(flags *pflag.FlagSet, config, declared any, topic string) {
	Settings(flags, func(flags *pflag.FlagSet) {
		addFields(flags, reflect.ValueOf(declared), reflect.ValueOf(config).Elem(), topic)
	})
}

// AddOptions is AddSettings for options of one action, which only the command line sets.
func AddOptions(flags *pflag.FlagSet, options any) {
	v := reflect.ValueOf(options).Elem()
	addFields(flags, v, v, "")
}

// AddOptionsOf is AddOptions for the fields of config, as AddSettingsOf.
func AddOptionsOf(flags *pflag.FlagSet, config, declared any) {
	addFields(flags, reflect.ValueOf(declared), reflect.ValueOf(config).Elem(), "")
}

func addFields(flags *pflag.FlagSet, declared, values reflect.Value, topic string) {
	for i := range declared.NumField() {
		field := declared.Type().Field(i)
		value, inner := values.FieldByName(field.Name), topic
		name, grouped := field.Tag.Lookup("topic")
		if name != "" {
			inner = name
		}
		switch {
		case field.Tag.Get("flag") != "":
			addSetting(flags, value, field.Tag)
			f := flags.Lookup(field.Tag.Get("flag"))
			annotate(f, envAnnotation, field.Tag.Get("env"))
			if inner != "" {
				annotate(f, topicAnnotation, inner)
			}
		case field.Type.Kind() == reflect.Struct && (grouped || field.Anonymous):
			addFields(flags, declared.Field(i), value, inner)
		}
	}
}

// addSetting adds the flag of one field.
func addSetting(flags *pflag.FlagSet, field reflect.Value, tag reflect.StructTag) {
	name, short, help := tag.Get("flag"), tag.Get("short"), helpOf(tag)
	initial, hasDefault := tag.Lookup("default")
	switch p := field.Addr().Interface().(type) {
	case pflag.Value:
		flags.VarP(p, name, short, help)
	case *bool:
		flags.BoolVarP(p, name, short, *p, help)
	case *string:
		flags.StringVarP(p, name, short, *p, help)
	case *int:
		flags.IntVarP(p, name, short, *p, help)
	case *int64:
		flags.Int64VarP(p, name, short, *p, help)
	case *time.Duration:
		flags.DurationVarP(p, name, short, *p, help)
		f := flags.Lookup(name)
		f.Value = days{f.Value}
	case *[]string:
		if hasDefault {
			*p, hasDefault = strings.Split(initial, ","), false
		}
		if tag.Get("split") != "" {
			flags.StringSliceVarP(p, name, short, *p, help)
		} else {
			flags.StringArrayVarP(p, name, short, *p, help)
		}
	default:
		panic(fmt.Sprintf("setting %s has the type %T", name, p))
	}
	f := flags.Lookup(name)
	if hasDefault {
		if err := f.Value.Set(initial); err != nil {
			panic(fmt.Sprintf("default of setting %s: %v", name, err))
		}
		f.DefValue = f.Value.String()
	}
	if least, ok := tag.Lookup("min"); ok {
		f.Value = limited{f.Value, func(string) error { return checkMin(field, least) }}
		if f.DefValue == "0s" {
			f.DefValue = "0" // pflag shows no default of this kind
		}
	}
	if allowed, ok := tag.Lookup("oneof"); ok {
		f.Value = limited{f.Value, func(text string) error { return checkOneOf(text, strings.Split(allowed, ",")) }}
	}
}

// helpOf returns the help with its unit in the quotation marks of pflag.
func helpOf(tag reflect.StructTag) string {
	help, unit := tag.Get("help"), tag.Get("unit")
	switch {
	case unit == "":
		return help
	case strings.Contains(help, unit):
		return strings.Replace(help, unit, "`"+unit+"`", 1)
	}
	return "`" + unit + "` " + help
}

// days is a duration that can also be a number of days, such as 7d.
type days struct{ pflag.Value }

// Set implements pflag.Value.
func (d days) Set(text string) error {
	if n, err := strconv.ParseUint(strings.TrimSuffix(text, "d"), 10, 16); err == nil && strings.HasSuffix(text, "d") {
		text = fmt.Sprint(24*n, "h")
	}
	return d.Value.Set(text)
}

// limited is a value that refuses some texts, wherever they come from.
type limited struct {
	pflag.Value
	check func(text string) error
}

// Set implements pflag.Value.
func (l limited) Set(text string) error {
	before := l.String()
	err := l.Value.Set(text)
	if err == nil {
		err = l.check(text)
	}
	if err != nil {
		_ = l.Value.Set(before) // it was valid
	}
	return err
}

func checkMin(field reflect.Value, least string) error {
	minimum, err := strconv.ParseInt(least, 10, 64)
	if d, durationErr := time.ParseDuration(least); err != nil && durationErr == nil {
		minimum = int64(d)
	}
	if field.Int() < minimum {
		return fmt.Errorf("want %s or more", least)
	}
	return nil
}

func checkOneOf(text string, allowed []string) error {
	if slices.Contains(allowed, text) {
		return nil
	}
	last := len(allowed) - 1
	return fmt.Errorf("want %s or %s", strings.Join(allowed[:last], ", "), allowed[last])
}

// Settings makes settings of the flags that add adds.
func Settings(flags *pflag.FlagSet, add func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(group)
	group.VisitAll(func(f *pflag.Flag) { annotate(f, settingAnnotation) })
	flags.AddFlagSet(group)
}

// annotate adds an annotation to a flag, which sets of flags share.
func annotate(f *pflag.Flag, name string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[name] = append([]string{}, values...)
}

// NoTopic shows a setting in the help of its commands.
func NoTopic(f *pflag.Flag) { delete(f.Annotations, topicAnnotation) }

// isSetting reports whether a flag is a setting of the process. The others are options of one
// command, which only the command line sets.
func isSetting(f *pflag.Flag) bool { return f.Annotations[settingAnnotation] != nil }
