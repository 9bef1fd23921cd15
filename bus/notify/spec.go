package notify

import (
	"errors"
	"fmt"
	"io"
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

// Open returns the channel that a spec describes:
//
//	console                                  writes to the terminal
//	file:PATH                                appends; lines of JSON if PATH ends in .jsonl
//	webhook:url=URL,secret=S                 Standard Webhooks; the secret is whsec_BASE64
//	slack:url=S   discord:url=S   mattermost:url=S
//	ntfy:url=URL,token=S   gotify:url=URL,token=S
//	http:url=URL,token=S,template=FILE,type=CONTENT-TYPE
//	telegram:token=S,chat=ID                 ID is the default chat
//	email:host=HOST:PORT,user=NAME,password=S,from=ADDRESS,to=ADDRESS;ADDRESS,tls=starttls
//
// S is a secret: env:VARIABLE or file:PATH, never the value itself, which process
// lists and logs would show. Other values may have this form too.
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
	if name == "file" { // the path may contain commas
		if rest == "" {
			return nil, errors.New("want a path, as in file:notes.jsonl")
		}
		return NewFile(rest), nil
	}
	known := "it has none"
	if settings := kinds[i].settings; settings != "" {
		known = "known are " + strings.ReplaceAll(settings, "*", "")
	}
	o, err := parseOptions(rest, env)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, known)
	}
	channel, err := kinds[i].open(o)
	if unknown := o.unused(); unknown != "" { // often a misspelt required one
		return nil, fmt.Errorf("unknown settings: %s; %s", unknown, known)
	}
	if o.err != nil { // the cause of err
		err = o.err
	}
	return channel, err
}

// kind is what a spec starts with. A setting with a * is a secret.
type kind struct {
	name, settings, note string
	open                 func(o *options) (Channel, error)
}

var kinds = []kind{
	{"console", "", "", func(o *options) (Channel, error) {
		if o.env.Stdout == nil {
			return nil, errors.New("this process has no console")
		}
		return NewConsole(o.env.Stdout), nil
	}},
	{"file", "PATH alone", "lines of JSON if it ends in .jsonl", nil},
	{"webhook", "url, secret*", "signed as Standard Webhooks; whsec_BASE64", func(o *options) (Channel, error) {
		return NewWebhook(o.required("url"), o.secret("secret"))
	}},
	{"slack", "url*", "", secretURL("slack")},
	{"discord", "url*", "", secretURL("discord")},
	{"mattermost", "url*", "", secretURL("mattermost")},
	{"ntfy", "url, token*", "", urlAndToken("ntfy")},
	{"gotify", "url, token*", "", urlAndToken("gotify")},
	{"http", "url, token*, template (a file with {{.Text}} or {{json .Text}}), type (the content type)", "", urlAndToken("http")},
	{"telegram", "token*, chat, server", "", func(o *options) (Channel, error) {
		return NewTelegram(o.requiredSecret("token"), TelegramConfig{Chat: o.value("chat"), Server: o.value("server")})
	}},
	{"email", "host (HOST:PORT), from, to (ADDRESS;ADDRESS), user, password*, tls (starttls, ssl or none)", "", func(o *options) (Channel, error) {
		return NewEmail(EmailConfig{
			Host: o.required("host"), User: o.value("user"), Password: o.secret("password"), TLS: o.value("tls"),
			From: o.required("from"), To: strings.FieldsFunc(o.required("to"), func(r rune) bool { return r == ';' }),
		})
	}},
}

func secretURL(preset string) func(*options) (Channel, error) {
	return func(o *options) (Channel, error) { return NewHTTP(preset, HTTPConfig{URL: o.requiredSecret("url")}) }
}

func urlAndToken(preset string) func(*options) (Channel, error) {
	return func(o *options) (Channel, error) {
		cfg := HTTPConfig{URL: o.required("url"), Token: o.secret("token")}
		if preset == "http" {
			cfg.Template, cfg.ContentType = o.file("template"), o.value("type")
		}
		return NewHTTP(preset, cfg)
	}
}

// KindsHelp lists the kinds of channels and their settings, one per line; a
// setting with a * is a secret.
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
