package channel

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// secrets are texts that no error may contain, in each encoding that a receiver
// may use in its response.
type secrets []string

// Shorter texts would match by chance. A part of a URL may be an ordinary word.
const (
	minSecret  = 4
	minURLPart = 6
)

// secretsOf returns the encodings of the credentials and of the parts of a URL,
// since incoming webhooks have their key in the path or the query. The URL may be
// nil.
func secretsOf(u *url.URL, credentials ...string) secrets {
	var all secrets
	add := func(least int, text string) {
		if len(text) >= least {
			all = append(all, encodings(text)...)
		}
	}
	for _, c := range credentials {
		add(minSecret, c)
	}
	if u != nil {
		password, _ := u.User.Password() // "" without user, as the others
		add(minSecret, password)
		add(minURLPart, u.User.String())
		add(minURLPart, u.User.Username()+":"+password) // for its base64 in the Authorization header
		for _, part := range []string{u.String(), u.RequestURI(), u.RawQuery, u.EscapedPath(), u.Path} {
			add(minURLPart, part)
		}
		for part := range strings.SplitSeq(u.Path, "/") {
			add(minURLPart, part)
		}
		for name, values := range u.Query() {
			add(minURLPart, name)
			for _, value := range values {
				add(minURLPart, value)
			}
		}
	}
	// The longer ones first, because they may contain shorter ones.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

func encodings(text string) []string {
	quoted, _ := json.Marshal(text) // strings do not fail
	return []string{
		text, string(quoted[1 : len(quoted)-1]), html.EscapeString(text), tools.EscapeLine(text),
		url.PathEscape(text), url.QueryEscape(text),
		base64.StdEncoding.EncodeToString([]byte(text)), base64.URLEncoding.EncodeToString([]byte(text)),
	}
}

// possibleSecret matches the parts of a template that may be credentials.
var possibleSecret = lazyregexp.New(`[A-Za-z0-9_.:/+=-]{8,}`)

// hide returns a text for an error: one line, bounded, without secrets. It removes
// them first, since it would not find one that is cut.
func (s secrets) hide(text string) string {
	return tools.EscapeLine(tools.Excerpt(strings.TrimSpace(tools.Redact(text, s...)), 300))
}

// hideCause returns the cause of a failed request without the URL that net/http
// adds.
func (s secrets) hideCause(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "timeout; the request may have arrived"
	}
	return s.hide(err.Error())
}
