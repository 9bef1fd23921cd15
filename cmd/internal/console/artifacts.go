package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// read answers with an operation that reads the artifact of the path. The workers have the store, so the
// page works with every store. The parameters are its arguments: as for a tool, numbers may be texts.
func (c *Console) read(op rpc.Operation) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		in := map[string]string{}
		for name := range r.URL.Query() {
			in[name] = r.URL.Query().Get(name)
		}
		in["artifact_id"] = r.PathValue("id")
		body, err := op.Ask(r.Context(), c.bus, r.PathValue("session"), in)
		return json.RawMessage(body), err
	}
}

const artifactsPerPage = 100

// artifacts lists a page of the artifacts of a session, or of all sessions.
func (c *Console) artifacts(r *http.Request) (any, error) {
	offset, err := number(r, "offset", 0, maxNumber)
	if err != nil {
		return nil, err
	}
	list := rpc.QueryArtifacts
	if r.PathValue("session") == "" {
		list = rpc.ListAllArtifacts
	}
	return list.Do(r.Context(), c.bus, r.PathValue("session"), rpc.ReadRequest{Offset: offset, Limit: artifactsPerPage})
}

const maxNumber = 1 << 50

// downloadChars is the size of a page of a download: its JSON fits into a message.
const downloadChars = offload.ReadChars / 2

// artifactContent writes all bytes of an artifact as a download. The browser saves the
// file and never shows it.
func (c *Console) artifactContent(w http.ResponseWriter, r *http.Request) {
	rec, err := rpc.ArtifactRecord.Do(r.Context(), c.bus, r.PathValue("session"), rpc.ArtifactRequest{ArtifactID: r.PathValue("id")})
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
	for offset, total, sent := int64(0), int64(1), int64(0); offset < total && sent < to; offset += downloadChars {
		page, err := rpc.ReadArtifact.Do(r.Context(), c.bus, r.PathValue("session"), rpc.ReadRequest{ArtifactID: r.PathValue("id"), Offset: offset, Limit: downloadChars})
		if err != nil {
			if offset == 0 {
				c.fail(w, r, err)
				return
			}
			panic(http.ErrAbortHandler) // the client sees that the file is incomplete
		}
		if offset == 0 {
			w.Header().Set("Accept-Ranges", "bytes")
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"%s.txt\"", tools.TokenOf(r.PathValue("id"))))
			if from > 0 || to < rec.Size {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, rec.Size))
				w.Header().Set("Content-Length", strconv.FormatInt(to-from, 10))
				w.WriteHeader(http.StatusPartialContent)
			}
		}
		// The places of characters are not known, so the pages before the range are read, too.
		data := page.Bytes()
		begin, end := min(max(from-sent, 0), int64(len(data))), min(to-sent, int64(len(data)))
		if begin < end {
			if _, err := w.Write(data[begin:end]); err != nil {
				return
			}
		}
		sent, total = sent+int64(len(data)), page.TotalChars
	}
}

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
