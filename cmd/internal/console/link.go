package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// linkTTL is how long a signed link is valid.
const linkTTL = time.Hour

const contentRoute = "GET /api/artifacts/{session}/{id}/content"

// artifactLink returns a signed link to the bytes of one artifact. Until it expires, whoever
// has it needs no token.
func (c *Console) artifactLink(r *http.Request) (any, error) {
	session, id := r.PathValue("session"), r.PathValue("id")
	at := time.Now().Add(linkTTL)
	expires := strconv.FormatInt(at.Unix(), 10)
	query := url.Values{"expires": {expires}, "signature": {c.sign(session, id, expires)}}
	path := "/api/artifacts/" + url.PathEscape(session) + "/" + url.PathEscape(id) + "/content?" + query.Encode()
	return map[string]any{"path": path, "expires_at": at.UTC().Truncate(time.Second)}, nil
}

// linkedContent serves the requests of signed links.
func (c *Console) linkedContent(w http.ResponseWriter, r *http.Request) {
	expires, signature := r.FormValue("expires"), r.FormValue("signature")
	want := c.sign(r.PathValue("session"), r.PathValue("id"), expires)
	at, err := strconv.ParseInt(expires, 10, 64)
	switch {
	case !hmac.Equal([]byte(signature), []byte(want)) || err != nil:
		writeError(w, http.StatusUnauthorized, string(tools.CodeInvalidArguments), "the link is not valid")
	case time.Now().After(time.Unix(at, 0)):
		writeError(w, http.StatusGone, string(tools.CodeExpired), "the link has expired; get another one on the page of the artifact")
	default:
		w.Header().Del("WWW-Authenticate")
		c.artifactContent(w, r)
	}
}

// sign returns the signature of a link. A new token of the page makes all links invalid.
func (c *Console) sign(session, id, expires string) string {
	mac := hmac.New(sha256.New, []byte("artifact link:"+c.cfg.Token))
	mac.Write([]byte(url.PathEscape(session) + "/" + url.PathEscape(id) + "/" + expires))
	return hex.EncodeToString(mac.Sum(nil))
}
