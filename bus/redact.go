package bus

import (
	"errors"
	"net/url"
	"strings"
)

// redactURLs replaces the passwords and tokens in a list of server URLs, for errors
// and logs. A URL may have no scheme.
func redactURLs(list string) string {
	urls := strings.Split(list, ",")
	for i, s := range urls {
		s = strings.TrimSpace(s)
		scheme, rest, ok := strings.Cut(s, "://")
		if !ok {
			scheme, rest = "nats", s
		}
		u, err := url.Parse(scheme + "://" + rest)
		// url.Parse takes a part of a password with / ? or # for the path or the port.
		if err != nil || u.User == nil && strings.Contains(rest, "@") {
			urls[i] = "(an unreadable URL)"
			continue
		}
		shown := url.URL{Scheme: u.Scheme, Host: u.Host}
		if u.User != nil {
			shown.User = url.User("xxxxx")
		}
		urls[i] = shown.String()
	}
	return strings.Join(urls, ",")
}

// withoutURL removes the URL, which may contain a password, from the error about a
// malformed URL.
func withoutURL(err error) error {
	if _, malformed := errors.AsType[*url.Error](err); malformed {
		return errors.New("malformed URL; percent-encode all characters of the user and the password except letters and digits")
	}
	return err
}
