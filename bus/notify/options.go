package notify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// options are the settings of one spec. Its methods note the first error, so
// that a channel is described in one expression.
type options struct {
	env    Env
	values map[string]string
	err    error
}

func parseOptions(text string, env Env) (*options, error) {
	o := &options{env: env, values: map[string]string{}}
	if text == "" {
		return o, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, errors.New("want NAME=VALUE,NAME=VALUE behind the colon") // it may be a secret
		}
		o.values[name] = value
	}
	return o, nil
}

// value returns a setting, fetched from where it names; "" if it is not set.
func (o *options) value(name string) string {
	value, ok := o.values[name]
	delete(o.values, name)
	if !ok {
		return ""
	}
	value, _ = o.fetch(name, value)
	return value
}

// secret is value for what must not stand in the spec itself.
func (o *options) secret(name string) string {
	value, ok := o.values[name]
	delete(o.values, name)
	if !ok {
		return ""
	}
	value, fetched := o.fetch(name, value)
	if !fetched {
		o.note(fmt.Errorf("%s is a secret: want %s=env:VARIABLE or %s=file:PATH, and the value there", name, name, name))
		return ""
	}
	return value
}

func (o *options) needed(name string) string       { return o.need(name, o.value(name)) }
func (o *options) neededSecret(name string) string { return o.need(name, o.secret(name)) }

func (o *options) need(name, value string) string {
	if value == "" {
		o.note(fmt.Errorf("it needs the setting %s", name))
	}
	return value
}

// file returns the content of the file that a setting names.
func (o *options) file(name string) string {
	path, ok := o.values[name]
	delete(o.values, name)
	if !ok {
		return ""
	}
	value, _ := o.fetch(name, "file:"+strings.TrimPrefix(path, "file:"))
	return value
}

func (o *options) fetch(name, value string) (_ string, fetched bool) {
	if variable, ok := strings.CutPrefix(value, "env:"); ok {
		if o.env.LookupEnv != nil {
			if value, ok = o.env.LookupEnv(variable); ok {
				return strings.TrimSpace(value), true
			}
		}
		o.note(fmt.Errorf("%s: the environment variable %q is not set", name, variable))
		return "", true
	}
	if path, ok := strings.CutPrefix(value, "file:"); ok {
		if o.env.ReadFile == nil {
			o.note(fmt.Errorf("%s: files cannot be read here", name))
			return "", true
		}
		data, err := o.env.ReadFile(path)
		if err != nil {
			o.note(fmt.Errorf("%s: %w", name, err))
		}
		return strings.TrimSpace(string(data)), true
	}
	return value, false
}

func (o *options) note(err error) {
	if o.err == nil {
		o.err = err
	}
}

// unused lists settings that nobody asked for: mostly typos.
func (o *options) unused() string {
	names := slices.Sorted(maps.Keys(o.values))
	for i, name := range names {
		if len(name) > 20 || !tools.IsToken(name) {
			names[i] = "(one that is no name)" // it may be a secret that was cut apart
		}
	}
	return strings.Join(names, ", ")
}
