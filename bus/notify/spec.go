package notify

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Env is what channels take from their surroundings; only commands know it.
type Env struct {
	// Stdout is where the console channel writes.
	Stdout io.Writer
	// LookupEnv and ReadFile fetch the secrets that specs name.
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
//	telegram:token=S,chat=ID                 chat is where what names none goes
//	email:host=HOST:PORT,user=NAME,password=S,from=ADDRESS,to=ADDRESS;ADDRESS,tls=starttls
//
// S is a secret. It never stands in a spec itself, where process lists and logs
// would show it, but is named: env:VARIABLE or file:PATH. Other values may be
// named so as well.
func Open(spec string, env Env) (Channel, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	if kind == "file" {
		if rest == "" {
			return nil, errors.New("channel file: it needs a path, as in file:notes.jsonl")
		}
		return NewFile(rest), nil
	}
	channel, err := open(kind, rest, env)
	if err != nil {
		return nil, fmt.Errorf("channel %s: %w", tools.Excerpt(kind, 40), err)
	}
	return channel, nil
}

func open(kind, rest string, env Env) (Channel, error) {
	i := slices.IndexFunc(kinds, func(k kindOf) bool { return k.name == kind })
	if i < 0 {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.name
		}
		return nil, fmt.Errorf("no such kind; want one of %s", strings.Join(names, ", "))
	}
	known := "it has none"
	if settings := kinds[i].settings; settings != "" {
		known = "known are " + strings.ReplaceAll(settings, "*", "")
	}
	o, err := parseOptions(rest, env)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, known)
	}
	channel, err := openKind(kind, o)
	if unknown := o.unused(); unknown != "" { // often the misspelt one that is missed
		return nil, fmt.Errorf("unknown settings: %s; %s", unknown, known)
	}
	if o.err != nil { // the reason of whatever came after
		err = o.err
	}
	return channel, err
}

type kindOf struct{ name, settings, note string }

// kinds are what a spec can begin with, and what openKind asks of each; a setting
// with a * is a secret.
var kinds = []kindOf{
	{"console", "", ""},
	{"file", "PATH alone", "lines of JSON if it ends in .jsonl"},
	{"webhook", "url, secret*", "signed as Standard Webhooks; whsec_BASE64"},
	{"slack", "url*", ""},
	{"discord", "url*", ""},
	{"mattermost", "url*", ""},
	{"ntfy", "url, token*", ""},
	{"gotify", "url, token*", ""},
	{"http", "url, token*, template (a file), type (the content type)", ""},
	{"telegram", "token*, chat, server", ""},
	{"email", "host (HOST:PORT), from, to (ADDRESS;ADDRESS), user, password*, tls (starttls, ssl or none)", ""},
}

// KindsHelp lists the kinds of channels and their settings, a line each; those
// with a * are secrets.
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

func openKind(kind string, o *options) (Channel, error) {
	switch kind {
	case "console":
		if o.env.Stdout == nil {
			return nil, errors.New("there is no terminal here")
		}
		return NewConsole(o.env.Stdout), nil
	case "webhook":
		return NewWebhook(o.needed("url"), o.secret("secret"))
	case "slack", "discord", "mattermost":
		return NewHTTP(kind, HTTPConfig{URL: o.neededSecret("url")})
	case "ntfy", "gotify":
		return NewHTTP(kind, HTTPConfig{URL: o.needed("url"), Token: o.secret("token")})
	case "http":
		return NewHTTP(kind, HTTPConfig{URL: o.needed("url"), Token: o.secret("token"), Template: o.file("template"), ContentType: o.value("type")})
	case "telegram":
		return NewTelegram(o.neededSecret("token"), TelegramConfig{Chat: o.value("chat"), Server: o.value("server")})
	case "email":
		return NewEmail(EmailConfig{
			Host: o.needed("host"), User: o.value("user"), Password: o.secret("password"), TLS: o.value("tls"),
			From: o.needed("from"), To: strings.FieldsFunc(o.needed("to"), func(r rune) bool { return r == ';' }),
		})
	}
	return nil, fmt.Errorf("the kind %q cannot be opened", kind)
}
