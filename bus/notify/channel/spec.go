package channel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Env is what channels need from the process. Only commands set it.
type Env struct {
	// Stdout is the writer of the console channel.
	Stdout io.Writer
	// LookupEnv and ReadFile return the secrets that specs name.
	LookupEnv func(name string) (string, bool)
	ReadFile  func(name string) ([]byte, error)
}

// Open returns the channel that a spec describes: one of kinds, and its settings, as in
// webhook:url=URL,secret=S. S is a secret: env:VARIABLE or file:PATH, never the value
// itself, which process lists and logs would show. Other values may have this form too.
func Open(spec string, env Env) (Channel, error) {
	name, rest, _ := strings.Cut(spec, ":")
	channel, err := open(name, rest, env)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", tools.Excerpt(name, 40), err)
	}
	return channel, nil
}

func open(name, rest string, env Env) (Channel, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.name
		}
		return nil, fmt.Errorf("no such kind; want one of %s", strings.Join(names, ", "))
	}
	values, err := kinds[i].parse(rest, env)
	if err != nil {
		return nil, err
	}
	return kinds[i].open(values, env)
}

// kind is what a spec starts with. In settings, brackets mark an optional setting
// and * marks a secret.
type kind struct {
	name, settings, note string
	open                 func(v map[string]string, env Env) (Channel, error)
}

// pathAlone are the settings of a kind whose spec is KIND:PATH.
const pathAlone = "PATH alone"

var kinds = []kind{
	{"console", "", "", func(_ map[string]string, env Env) (Channel, error) {
		if env.Stdout == nil {
			return nil, errors.New("this process has no console")
		}
		return NewConsole(env.Stdout), nil
	}},
	{"file", pathAlone, "lines of JSON if it ends in .jsonl", func(v map[string]string, _ Env) (Channel, error) {
		return NewFile(v["path"]), nil
	}},
	{"webhook", "url, [secret*], [allow (CHAT;CHAT)]", "signed as Standard Webhooks; whsec_BASE64", func(v map[string]string, _ Env) (Channel, error) {
		return NewWebhook(v["url"], v["secret"], v["allow"])
	}},
	{"slack", "url*", "an incoming webhook; a bot is a bridge", openHTTP("slack")},
	{"discord", "url*", "an incoming webhook; a bot is a bridge", openHTTP("discord")},
	{"mattermost", "url*", "", openHTTP("mattermost")},
	{"ntfy", "url, [token*]", "", openHTTP("ntfy")},
	{"gotify", "url, [token*]", "", openHTTP("gotify")},
	{"http", "url, [token*], [template (a file with {{.Text}} or {{json .Text}})], [type (the content type)]", "", openHTTP("http")},
	{"telegram", "token*, [chat], [allow (CHAT;CHAT)], [server]", "", func(v map[string]string, _ Env) (Channel, error) {
		return NewTelegram(v["token"], BotConfig{Chat: v["chat"], Allow: v["allow"], Server: v["server"]})
	}},
	{"email", "host (HOST:PORT), from, to (ADDRESS;ADDRESS), [user], [password*], [tls (starttls|ssl|none)]", "",
		func(v map[string]string, _ Env) (Channel, error) {
			return NewEmail(EmailConfig{
				Host: v["host"], User: v["user"], Password: v["password"], TLS: v["tls"],
				From: v["from"], To: strings.FieldsFunc(v["to"], func(r rune) bool { return r == ';' }),
			})
		}},
	{"bridge", "[chat], [allow (CHAT;CHAT)], [style (slack|discord|mattermost)]", "a program at the other end", func(v map[string]string, _ Env) (Channel, error) {
		return NewBridge(v["chat"], v["allow"], v["style"])
	}},
}

func openHTTP(preset string) func(map[string]string, Env) (Channel, error) {
	return func(v map[string]string, _ Env) (Channel, error) {
		return NewHTTP(preset, HTTPConfig{URL: v["url"], Token: v["token"], Template: v["template"], ContentType: v["type"]})
	}
}

// parse returns the values of the settings in a spec. Its errors contain no value,
// and no name that may be a part of a secret.
func (k kind) parse(text string, env Env) (map[string]string, error) {
	if k.settings == pathAlone { // the path may contain commas
		if text == "" {
			return nil, fmt.Errorf("want a path, as in %s:notes.jsonl", k.name)
		}
		return map[string]string{"path": text}, nil
	}
	given := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(item, "=")
		if text != "" && (!ok || name == "") {
			return nil, fmt.Errorf("want NAME=VALUE,NAME=VALUE after the colon; %s", k.known())
		}
		given[name] = value
	}
	delete(given, "") // of an empty text
	values := map[string]string{}
	var firstErr error
	for item := range strings.SplitSeq(k.settings, ", ") {
		setting, optional := strings.CutPrefix(strings.TrimSuffix(item, "]"), "[")
		setting, _, _ = strings.Cut(setting, " (")
		name, secret := strings.CutSuffix(setting, "*")
		value, ok := given[name]
		delete(given, name)
		var err error
		if ok {
			values[name], err = env.value(name, value, secret)
		}
		if err == nil && !optional && name != "" && values[name] == "" {
			err = fmt.Errorf("the setting %s is required", name)
		}
		firstErr = cmp.Or(firstErr, err)
	}
	if len(given) > 0 { // often a misspelt required one
		unknown := slices.Sorted(maps.Keys(given))
		for i, name := range unknown {
			if len(name) > 20 || !tools.IsToken(name) {
				unknown[i] = "(an invalid name)"
			}
		}
		return nil, fmt.Errorf("unknown settings: %s; %s", strings.Join(unknown, ", "), k.known())
	}
	return values, firstErr
}

func (k kind) known() string {
	if k.settings == "" {
		return "it has none"
	}
	return "known are " + strings.NewReplacer("*", "", "[", "", "]", "").Replace(k.settings)
}

// value returns the value of a setting: of a variable, of a file, or as it is given.
func (e Env) value(name, given string, secret bool) (string, error) {
	if name == "template" { // always a file
		given = "file:" + strings.TrimPrefix(given, "file:")
	}
	if variable, ok := strings.CutPrefix(given, "env:"); ok {
		if e.LookupEnv != nil {
			if value, ok := e.LookupEnv(variable); ok {
				return strings.TrimSpace(value), nil
			}
		}
		return "", fmt.Errorf("%s: the environment variable %q is not set", name, variable)
	}
	if path, ok := strings.CutPrefix(given, "file:"); ok {
		if e.ReadFile == nil {
			return "", fmt.Errorf("%s: cannot read files here", name)
		}
		data, err := e.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	if secret {
		return "", fmt.Errorf("%s is a secret: want %[1]s=env:VARIABLE or %[1]s=file:PATH", name)
	}
	return given, nil
}

// KindsHelp lists the kinds of channels and their settings, one per line. Brackets
// mark an optional setting and * marks a secret.
func KindsHelp() string {
	var b strings.Builder
	for _, k := range kinds {
		line := fmt.Sprintf("  %-10s  %s", k.name, k.settings)
		if k.note != "" {
			line = fmt.Sprintf("%-34s  %s", line, k.note)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
