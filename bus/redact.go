package bus

import (
	"errors"
	"net/url"
	"strings"
)

// redactURLs hides the passwords and tokens in a list of server URLs, for error
// texts and logs. A scheme may be missing, as the client allows.
func redactURLs(list string) string {
	urls := strings.Split(list, ",")
	for i, s := range urls {
		s = strings.TrimSpace(s)
		scheme, rest, ok := strings.Cut(s, "://")
		if !ok {
			scheme, rest = "nats", s
		}
		u, err := url.Parse(scheme + "://" + rest)
		// A password with / ? or # in it ends up behind the host, or as its port.
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

// withoutURL takes the URL, and the password in it, out of the error that a
// malformed one leads to.
func withoutURL(err error) error {
	if _, malformed := errors.AsType[*url.Error](err); malformed {
		return errors.New("malformed URL; percent-encode what is not a letter or a digit in the user and the password")
	}
	return err
}
