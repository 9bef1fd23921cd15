package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// readTimeout is the time that a worker gets to read an artifact.
const readTimeout = 40 * time.Second

// ask asks a worker to read an artifact. The workers have the store, so the page works
// with every store.
func (c *Console) ask(ctx context.Context, r *http.Request, function string, in rpc.ReadRequest) (json.RawMessage, error) {
	if err := checkPath(r); err != nil {
		return nil, err
	}
	in.ArtifactID = r.PathValue("id")
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return rpc.Request(ctx, c.bus, c.bus.RPC("artifact", callOf(r).Session, function), in)
}

const artifactsPerPage = 100

// artifacts lists a page of the artifacts of a session, or of all sessions.
func (c *Console) artifacts(r *http.Request) (any, error) {
	offset, err := number(r, "offset", 0, maxNumber)
	if err != nil {
		return nil, err
	}
	page := rpc.ReadRequest{Offset: offset, Limit: artifactsPerPage}
	if r.PathValue("session") != "" {
		return c.ask(r.Context(), r, "query", page)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	body, err := rpc.Request(ctx, c.bus, c.bus.RPC("artifacts", "list"), page)
	return json.RawMessage(body), err
}

func (c *Console) artifact(r *http.Request) (any, error) {
	return c.ask(r.Context(), r, "record", rpc.ReadRequest{})
}

const maxNumber = 1 << 50

func (c *Console) artifactLines(r *http.Request) (any, error) {
	start, err := number(r, "start", 1, maxNumber)
	if err != nil {
		return nil, err
	}
	end, err := number(r, "end", start+99, maxNumber)
	if err != nil {
		return nil, err
	}
	return c.ask(r.Context(), r, "lines", rpc.ReadRequest{StartLine: start, EndLine: end})
}

// artifactChars returns a range of characters, for content with very long lines.
func (c *Console) artifactChars(r *http.Request) (any, error) {
	offset, err := number(r, "offset", 0, maxNumber)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", offload.PageChars, offload.PageChars)
	if err != nil {
		return nil, err
	}
	return c.ask(r.Context(), r, "get", rpc.ReadRequest{Offset: offset, Limit: limit})
}

func (c *Console) artifactGrep(r *http.Request) (any, error) {
	limit, err := number(r, "limit", 500, 2000)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	return c.ask(r.Context(), r, "grep", rpc.ReadRequest{GrepQuery: offload.GrepQuery{
		Pattern: query.Get("pattern"), IgnoreCase: query.Get("ignore_case") != "", MaxResults: int(limit),
	}})
}

func (c *Console) artifactJQ(r *http.Request) (any, error) {
	return c.ask(r.Context(), r, "jq", rpc.ReadRequest{Query: r.URL.Query().Get("query")})
}

// downloadChars is the size of a page of a download: its JSON fits into a message.
const downloadChars = offload.ReadChars / 2

// artifactContent writes all bytes of an artifact as a download. The browser saves the
// file and never shows it.
func (c *Console) artifactContent(w http.ResponseWriter, r *http.Request) {
	body, err := c.ask(r.Context(), r, "record", rpc.ReadRequest{})
	var rec offload.Record
	if err == nil {
		err = json.Unmarshal(body, &rec)
	}
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
		var page rpc.ReadPage
		if err == nil {
			body, err = c.ask(r.Context(), r, "read", rpc.ReadRequest{Offset: offset, Limit: downloadChars})
		}
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
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
