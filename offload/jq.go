package offload

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxJQQuery = 4 << 10   // bytes
	maxJQInput = 8 << 20   // bytes of the largest document that is always loaded
	maxJQHeap  = 256 << 20 // bytes by which the process may grow while queries run
	jqWatch    = 5 * time.Millisecond
)

// JQResult is the result of a jq query on an artifact.
type JQResult struct {
	ArtifactID string            `json:"artifact_id"`
	Query      string            `json:"query"`
	Results    []json.RawMessage `json:"results"`
	// Limited is true if there may be more results than shown. The query continues there
	// with the offset NextOffset.
	Limited    bool `json:"limited,omitempty"`
	NextOffset int  `json:"next_offset,omitempty"`
	// Searched is the byte before which all rows were searched if the query was stopped at
	// its timeout and can continue, otherwise 0. NextOffset is negative then.
	Searched int64 `json:"searched,omitempty"`
	// Notes say what is missing.
	Notes []string `json:"notes,omitempty"`
}

// Text returns the form for a model.
func (j *JQResult) Text() string {
	var b strings.Builder
	more := ""
	if j.Limited {
		more = "at least " // a model takes the number for the number of all results
	}
	fmt.Fprintf(&b, "Found %s%d result(s) for query '%s' in knowledge#%s", more, len(j.Results), j.Query, j.ArtifactID)
	for i, result := range j.Results {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n%s", result)
	}
	if j.NextOffset != 0 && j.Searched == 0 {
		fmt.Fprintf(&b, "\n\n[there are more results than shown; continue with offset=%d, or narrow the query]", j.NextOffset)
	}
	for _, note := range j.Notes {
		b.WriteString("\n\n[" + note + "]")
	}
	return b.String()
}

// JQQuery configures a JQ. Its JSON form is the arguments of the tool.
type JQQuery struct {
	Query  string `json:"query" jsonschema:"a jq program, for instance '.items[:5] | map(.name)'"`
	Offset int    `json:"offset,omitempty" jsonschema:"results to leave out, to continue an answer"`
}

// JQ runs a jq query on an artifact that is JSON or a table (CSV or TSV); the exit code
// of a command may follow. With several values (NDJSON) it runs on each of them, or on
// the array of all if it fits only an array. A table is an array of objects; a query
// about a row runs on each row. Time, memory and output are bounded: a large document
// is read in parts if the query allows that.
func (r *Reader) JQ(ctx context.Context, session, id string, q JQQuery) (res *JQResult, err error) {
	if _, err := compileJQ(q.Query, gojq.WithInputIter(gojq.NewIter[any]())); err != nil {
		return nil, err
	}
	select {
	case r.jq <- struct{}{}:
		defer func() { <-r.jq }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer countRead("jq", time.Now())
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		size, err := sizeWithoutExitCode(c, c.Size())
		if err != nil {
			return err
		}
		place, err := placeOf(q.Offset, size)
		if err != nil {
			return err
		}
		input := resumed(c, size, place.From)
		req := jqRequest{ArtifactID: rec.ID, Query: q.Query, Offset: place.Skip, From: place.From, Media: rec.MediaType, Size: size, Limit: r.cfg.MaxChars - noteReserve, Time: r.cfg.JQTime}
		if len(r.cfg.JQCommand) > 0 {
			res, err = runInProcess(ctx, r.cfg, req, input)
		} else {
			res, err = runWithin(ctx, req, input)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func compileJQ(query string, options ...gojq.CompilerOption) (*gojq.Code, error) {
	if len(query) > maxJQQuery {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query has %d bytes; at most %d are accepted", len(query), maxJQQuery)
	}
	parsed, err := gojq.Parse(query)
	if err != nil {
		return nil, badQuery(query, err)
	}
	code, err := gojq.Compile(parsed, options...)
	if err != nil {
		return nil, badQuery(query, err)
	}
	return code, nil
}

// minJSONLen returns the least length that v can have as JSON, or any length over
// limit. It visits no more of v than that: parts of v may be shared many times.
func minJSONLen(v any, limit int) int {
	n := 1
	switch v := v.(type) {
	case string:
		n = len(v) + 2
	case json.Number:
		n = len(v)
	case fmt.Stringer: // a big.Int
		n = len(v.String())
	case []any:
		for _, e := range v {
			if n += minJSONLen(e, limit-n) + 1; n > limit {
				break
			}
		}
	case map[string]any:
		for k, e := range v {
			if n += len(k) + 4 + minJSONLen(e, limit-n); n > limit {
				break
			}
		}
	}
	return n
}

var errJQMemory = tools.Errorf(tools.CodeInvalidArguments, "the query or its artifact needs too much memory; narrow the query, or use %s", ToolGrep)

// watchHeap returns a context that ends when the heap has grown by more than
// maxJQHeap: gojq checks the context at each step, but does not bound its memory. A
// single step can still take 2 GB, such as "x" * 2e9; ReaderConfig.JQCommand bounds
// that.
func watchHeap(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	start := heapBytes()
	go func() {
		defer close(done)
		tick := time.NewTicker(jqWatch)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if heapBytes() > start+maxJQHeap {
				cancel(errJQMemory)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
