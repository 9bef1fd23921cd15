package notify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// options are the settings of one spec. The methods keep the first error, so
// that the caller can check it once.
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
			return nil, errors.New("want NAME=VALUE,NAME=VALUE after the colon") // it may be a secret
		}
		o.values[name] = value
	}
	return o, nil
}

// value returns a setting, read from env: or file: if it names one; "" if it is
// not set.
func (o *options) value(name string) string {
	value, _ := o.take(name)
	value, _ = o.fetch(name, value)
	return value
}

// secret is value for settings that the spec itself must not contain.
func (o *options) secret(name string) string {
	value, ok := o.take(name)
	value, fetched := o.fetch(name, value)
	if ok && !fetched {
		o.fail(fmt.Errorf("%s is a secret: want %s=env:VARIABLE or %s=file:PATH", name, name, name))
		return ""
	}
	return value
}

func (o *options) required(name string) string       { return o.require(name, o.value(name)) }
func (o *options) requiredSecret(name string) string { return o.require(name, o.secret(name)) }

func (o *options) require(name, value string) string {
	if value == "" {
		o.fail(fmt.Errorf("the setting %s is required", name))
	}
	return value
}

// file returns the content of the file that a setting names.
func (o *options) file(name string) string {
	path, ok := o.take(name)
	if !ok {
		return ""
	}
	value, _ := o.fetch(name, "file:"+strings.TrimPrefix(path, "file:"))
	return value
}

// take returns and removes a setting.
func (o *options) take(name string) (value string, ok bool) {
	value, ok = o.values[name]
	delete(o.values, name)
	return value, ok
}

func (o *options) fetch(name, value string) (_ string, fetched bool) {
	if variable, ok := strings.CutPrefix(value, "env:"); ok {
		if o.env.LookupEnv != nil {
			if value, ok = o.env.LookupEnv(variable); ok {
				return strings.TrimSpace(value), true
			}
		}
		o.fail(fmt.Errorf("%s: the environment variable %q is not set", name, variable))
		return "", true
	}
	if path, ok := strings.CutPrefix(value, "file:"); ok {
		if o.env.ReadFile == nil {
			o.fail(fmt.Errorf("%s: cannot read files here", name))
			return "", true
		}
		data, err := o.env.ReadFile(path)
		if err != nil {
			o.fail(fmt.Errorf("%s: %w", name, err))
		}
		return strings.TrimSpace(string(data)), true
	}
	return value, false
}

func (o *options) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// unused lists the settings that no method has read: mostly typos.
func (o *options) unused() string {
	names := slices.Sorted(maps.Keys(o.values))
	for i, name := range names {
		if len(name) > 20 || !tools.IsToken(name) {
			names[i] = "(an invalid name)" // it may be a part of a secret
		}
	}
	return strings.Join(names, ", ")
}
