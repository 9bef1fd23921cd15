package notify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// secrets are texts that may not be in an error, in each form in which another
// side may say them back.
type secrets []string

// Shorter texts would be found everywhere. Credentials are known to be some;
// parts of a URL may be words.
const (
	minSecret  = 4
	minURLPart = 6
)

// secretsOf returns the forms of credentials, and of what in a URL may be one:
// hooks have their key in the path or the query. The URL may be nil.
func secretsOf(u *url.URL, credentials ...string) secrets {
	var all secrets
	add := func(least int, text string) {
		if len(text) >= least {
			all = append(all, formsOf(text)...)
		}
	}
	for _, c := range credentials {
		add(minSecret, c)
	}
	if u != nil {
		if password, ok := u.User.Password(); ok {
			add(minSecret, password)
		}
		add(minURLPart, u.User.String()) // "" if there is none
		if u.User != nil {
			password, _ := u.User.Password()
			add(minURLPart, u.User.Username()+":"+password) // as the header of the request has it, encoded
		}
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
	// The longer ones first, because others may be parts of them.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

func formsOf(text string) []string {
	quoted, _ := json.Marshal(text) // strings do not fail
	return []string{
		text, string(quoted[1 : len(quoted)-1]), html.EscapeString(text), tools.EscapeLine(text),
		url.PathEscape(text), url.QueryEscape(text),
		base64.StdEncoding.EncodeToString([]byte(text)), base64.URLEncoding.EncodeToString([]byte(text)),
	}
}

// words are what of a template may be a credential that stands in it.
var words = regexp.MustCompile(`[A-Za-z0-9_.:/+=-]{8,}`)

// hide returns a text as it may stand in an error: one line, not too long, and
// without secrets. They are taken out first: a cut one could not be found.
func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return tools.EscapeLine(tools.Excerpt(strings.TrimSpace(text), 300))
}

// cause says why a request failed, without the URL that net/http puts into it.
func (s secrets) cause(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "no answer in time; it may have arrived all the same"
	}
	return s.hide(err.Error())
}
