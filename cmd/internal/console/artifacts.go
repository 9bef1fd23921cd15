package console

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// artifactContent writes all bytes of an artifact, or the part that the request wants, as a download.
// The browser saves the file; only the page shows it, if it is a picture.
func (c *Console) artifactContent(w http.ResponseWriter, r *http.Request) {
	session, id := r.PathValue("session"), r.PathValue("id")
	rec, err := rpc.ArtifactRecord.Do(r.Context(), c.bus, session, rpc.ArtifactRequest{ArtifactID: id})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	from, to, ok := byteRange(r, rec.Size)
	if !ok {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", rec.Size))
		writeError(w, http.StatusRequestedRangeNotSatisfiable, string(tools.CodeInvalidArguments), fmt.Sprintf("the artifact has %d bytes", rec.Size))
		return
	}
	begun, at := false, int64(0) // at is the offset of the next page
	err = rpc.Download(r.Context(), c.bus, session, id, 0, writerFunc(func(data []byte) (int, error) {
		if !begun {
			w.Header().Set("Accept-Ranges", "bytes")
			w.Header().Set("Content-Type", contentType(rec.MediaType))
			w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"%s.txt\"", tools.TokenOf(id)))
			if from > 0 || to < rec.Size {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, rec.Size))
				w.Header().Set("Content-Length", strconv.FormatInt(to-from, 10))
				w.WriteHeader(http.StatusPartialContent)
			}
		}
		// The places of characters are not known, so the pages before the range are read, too.
		page := int64(len(data))
		_, err := w.Write(data[min(max(from-at, 0), page):min(to-at, page)])
		if begun, at = true, at+page; at >= to && err == nil {
			err = io.EOF
		}
		return len(data), err
	}))
	switch {
	case err != nil && !begun:
		c.fail(w, r, err)
	case err != nil && at < to:
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

// byteRange returns the bytes from up to to (exclusive) that a request wants of size bytes:
// all of them if it has no Range, or one that need not be obeyed. ok is false if there are
// no such bytes.
func byteRange(r *http.Request, size int64) (from, to int64, ok bool) {
	spec, isBytes := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	first, last, isOne := strings.Cut(spec, "-")
	from, err := strconv.ParseInt(cmp.Or(first, "0"), 10, 64)
	to, lastErr := strconv.ParseInt(cmp.Or(last, strconv.FormatInt(size-1, 10)), 10, 64)
	switch {
	case !isBytes || !isOne || first+last == "" || err != nil || lastErr != nil || r.Header.Get("If-Range") != "":
		return 0, size, true
	case first == "": // the last bytes
		return max(size-to, 0), size, to > 0
	case last != "" && to < from:
		return 0, size, true
	}
	return from, min(to+1, size), from < size
}
