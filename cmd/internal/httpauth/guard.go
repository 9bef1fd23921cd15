package httpauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// MinToken is the shortest token that New accepts, in bytes.
const MinToken = 16

// NewToken returns a random token of 26 letters and digits (128 bits).
func NewToken() string { return rand.Text() }

// Config describes who may use an endpoint.
type Config struct {
	// Tokens maps each token to the identity that Identity returns for its
	// requests. At least one token is required.
	Tokens map[string]string
	// Hosts are additional names that a request may have in its Host header, without
	// a port. "localhost" and IP addresses need no entry. The check protects against
	// DNS rebinding, which needs a name that an attacker controls.
	Hosts []string
	// Cookie is the name of the cookie that carries the token of a browser. If the
	// address of a request has a port, _PORT is added to the name. Empty means that
	// only the Authorization header is accepted.
	Cookie string
	// Unauthorized answers requests without a valid token. It must reveal nothing.
	// Default: status 401 with one line of text.
	Unauthorized http.Handler
}

// Guard decides which requests reach a handler. It is safe for concurrent use.
type Guard struct {
	cfg     Config
	tokens  []credential
	origins *http.CrossOriginProtection
}

// credential holds digests, so that a comparison takes the same time for every length.
type credential struct {
	token, cookie [sha256.Size]byte
	cookieValue   string
	identity      string
}

// New returns a Guard, or an error that says which setting is wrong.
func New(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg, origins: http.NewCrossOriginProtection()}
	if len(cfg.Tokens) == 0 {
		return nil, errors.New("an HTTP endpoint needs a token")
	}
	for token, identity := range cfg.Tokens {
		if len(token) < MinToken {
			return nil, fmt.Errorf("a token of an HTTP endpoint needs at least %d characters; this one has %d", MinToken, len(token))
		}
		value := cookieValue(token)
		g.tokens = append(g.tokens, credential{
			token: sha256.Sum256([]byte(token)), cookie: sha256.Sum256([]byte(value)), cookieValue: value, identity: identity,
		})
	}
	return g, nil
}

// Handler returns a handler that passes only permitted requests to next. It answers the
// others with 421 (Host), 403 (Origin) or 401 (token).
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if !g.allowedHost(r) {
			w.Header().Set("Connection", "close")
			http.Error(w, "this endpoint has another name; use its IP address, or allow the host name in its settings", http.StatusMisdirectedRequest)
			return
		}
		if !g.allowedOrigin(r) {
			w.Header().Set("Connection", "close")
			http.Error(w, "requests from pages of another origin are not allowed", http.StatusForbidden)
			return
		}
		if g.exchange(w, r) {
			return
		}
		identity, ok := g.authenticate(r)
		if !ok {
			w.Header().Set("Connection", "close") // whoever has no token holds no connection
			w.Header().Set("WWW-Authenticate", `Bearer realm="stevedore"`)
			if g.cfg.Unauthorized != nil {
				g.cfg.Unauthorized.ServeHTTP(w, r)
				return
			}
			http.Error(w, "a valid token is required: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, identity)))
	})
}

type identityKey struct{}

// Identity returns the identity of the request's token. It is empty if the request did
// not pass a Guard.
func Identity(ctx context.Context) string {
	identity, _ := ctx.Value(identityKey{}).(string)
	return identity
}

// setHeaders sets headers that fit data. A handler that serves a page replaces the
// content security policy.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

func (g *Guard) allowedHost(r *http.Request) bool {
	name, isAddress := hostOf(r)
	return isLoopbackHost(r) || isAddress && !arrivedOnLoopback(r) ||
		slices.ContainsFunc(g.cfg.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// Public returns a handler for answers that need no token. A request that arrives on
// loopback must have a Host that is localhost or a loopback address: otherwise pages of the
// Internet could read the answers under a name that they let point to this machine.
func Public(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrivedOnLoopback(r) && !isLoopbackHost(r) {
			http.Error(w, "this endpoint has another name; use localhost or its IP address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns the name or the address in the header Host, without a port.
func hostOf(r *http.Request) (name string, isAddress bool) {
	name = r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	_, err := netip.ParseAddr(name)
	return name, err == nil
}

func isLoopbackHost(r *http.Request) bool {
	name, _ := hostOf(r)
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}

func arrivedOnLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := local.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// allowedOrigin extends CrossOriginProtection, which permits every GET, to all methods:
// a stream of events is a GET too.
func (g *Guard) allowedOrigin(r *http.Request) bool {
	if g.origins.Check(r) != nil {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// authenticate compares with every token, so that the time reveals nothing.
func (g *Guard) authenticate(r *http.Request) (identity string, ok bool) {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		scheme, token, _ := strings.Cut(values[0], " ")
		if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return "", false
		}
		c, ok := g.find(strings.TrimSpace(token), func(c *credential) *[sha256.Size]byte { return &c.token })
		return c.identity, ok
	}
	if g.cfg.Cookie == "" {
		return "", false
	}
	for _, cookie := range r.CookiesNamed(g.cookieName(r)) {
		if c, ok := g.find(cookie.Value, func(c *credential) *[sha256.Size]byte { return &c.cookie }); ok {
			return c.identity, true
		}
	}
	return "", false
}

func (g *Guard) find(secret string, digest func(*credential) *[sha256.Size]byte) (found credential, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, c := range g.tokens {
		if subtle.ConstantTimeCompare(sum[:], digest(&c)[:]) == 1 {
			found, ok = c, true
		}
	}
	return found, ok
}
