package console

import (
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// artifactContent writes all bytes of an artifact as a download. The browser saves the file; only the page
// shows it, if it is a picture.
func (c *Console) artifactContent(w http.ResponseWriter, r *http.Request) {
	session, id := r.PathValue("session"), r.PathValue("id")
	rec, err := rpc.ArtifactRecord.Do(r.Context(), c.bus, session, rpc.ArtifactRequest{ArtifactID: id})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	begun := false
	err = rpc.Download(r.Context(), c.bus, session, id, 0, writerFunc(func(data []byte) (int, error) {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", contentType(rec.MediaType))
			w.Header().Set("Content-Length", strconv.FormatInt(rec.Size, 10))
			w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": agents.FileName(rec)}))
		}
		return w.Write(data)
	}))
	switch {
	case err != nil && !begun:
		c.fail(w, r, err)
	case err != nil:
		panic(http.ErrAbortHandler) // the client sees that the file is incomplete
	}
}

// contentType is the type with which the page gets the bytes of an artifact: its own if it is a picture
// that the page shows, and else one that no browser opens.
func contentType(media string) string {
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, media) {
		return media
	}
	return "application/octet-stream"
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }
