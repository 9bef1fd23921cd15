package httpauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"strconv"
)

// TokenParameter is the parameter of a URL that a browser exchanges for the cookie.
const TokenParameter = "token"

// cookieValue derives the cookie from the token, so that the cookie does not reveal the
// token.
func cookieValue(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("stevedore cookie"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// cookieName returns the name of the cookie for the port of a request. Browsers send the
// cookies of a host to all of its ports, so two pages on one host need different names.
func (g *Guard) cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && isNumber(port) {
		return g.cfg.Cookie + "_" + port
	}
	return g.cfg.Cookie
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// exchange answers a GET whose URL has a valid token: it sets the cookie and redirects to
// the root without the token, so that the token stays out of the address bar, the Referer
// header and bookmarks. It reports whether it answered.
func (g *Guard) exchange(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	if g.cfg.Cookie == "" || r.Method != http.MethodGet || !query.Has(TokenParameter) {
		return false
	}
	c, ok := g.find(query.Get(TokenParameter), func(c *credential) *[sha256.Size]byte { return &c.token })
	if !ok {
		return false
	}
	http.SetCookie(w, &http.Cookie{
		Name: g.cookieName(r), Value: c.cookieValue, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	query.Del(TokenParameter)
	target := "/" // a path such as //example.com would leave this origin
	if r.URL.RawQuery = query.Encode(); r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
	return true
}
