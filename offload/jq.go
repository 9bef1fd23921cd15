package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxJQQuery = 4 << 10   // bytes
	maxJQInput = 8 << 20   // bytes of the largest artifact that is loaded
	maxJQHeap  = 256 << 20 // bytes by which the process may grow while queries run
	jqWatch    = 5 * time.Millisecond
)

// JQResult is the result of a jq query on an artifact.
type JQResult struct {
	ArtifactID string            `json:"artifact_id"`
	Query      string            `json:"query"`
	Results    []json.RawMessage `json:"results"`
	// Limited is true if there are more results than shown.
	Limited bool `json:"limited,omitempty"`
}

// Text returns the form for a model.
func (j *JQResult) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d result(s) for query '%s' in knowledge#%s", len(j.Results), j.Query, j.ArtifactID)
	for i, result := range j.Results {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n%s", result)
	}
	if j.Limited {
		b.WriteString("\n\n[there are more results than shown; narrow the query]")
	}
	return b.String()
}

// JQ runs a jq query on an artifact that is one or more JSON values; the exit code of
// a command may follow. The size of the artifact, time, memory and output are bounded.
func (r *Reader) JQ(ctx context.Context, session, id, query string) (*JQResult, error) {
	code, err := compileJQ(query)
	if err != nil {
		return nil, err
	}
	select {
	case r.jq <- struct{}{}:
		defer func() { <-r.jq }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	res := &JQResult{Query: query, Results: []json.RawMessage{}}
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		res.ArtifactID = rec.ID
		if c.Size() > maxJQInput {
			return tools.Errorf(tools.CodeInvalidArguments, "the artifact %q has %d bytes; jq accepts at most %d; use %s or %s", rec.ID, c.Size(), maxJQInput, ToolGrep, ToolGet)
		}
		size, err := sizeWithoutExitCode(c)
		if err != nil {
			return err
		}
		input := io.NewSectionReader(c, 0, size)
		if len(r.cfg.JQCommand) > 0 {
			return res.runInProcess(ctx, r.cfg, input)
		}
		return res.runWithin(ctx, r.cfg.JQTime, code, input, r.cfg.MaxChars)
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// exitCode is the last line of the output of a command, as the tool shell writes it.
// No JSON ends like that.
var exitCode = regexp.MustCompile(`\n\[Exit code: -?[0-9]+\]\n?$`)

// sizeWithoutExitCode returns the number of bytes before the exit code.
func sizeWithoutExitCode(c blockContent) (int64, error) {
	end := make([]byte, min(c.Size(), 40))
	if _, err := c.ReadAt(end, c.Size()-int64(len(end))); err != nil && err != io.EOF {
		return 0, err
	}
	at := exitCode.FindIndex(end)
	if at == nil {
		return c.Size(), nil
	}
	return c.Size() - int64(len(end)-at[0]), nil
}

func compileJQ(query string) (*gojq.Code, error) {
	if len(query) > maxJQQuery {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query has %d bytes; at most %d are accepted", len(query), maxJQQuery)
	}
	parsed, err := gojq.Parse(query)
	if err != nil {
		return nil, badQuery(query, err)
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, badQuery(query, err)
	}
	return code, nil
}

// runWithin is run with bounded time and memory.
func (j *JQResult) runWithin(ctx context.Context, timeout time.Duration, code *gojq.Code, input io.Reader, limit int) error {
	limited, cancel := context.WithTimeoutCause(ctx, timeout, jqTimeout(j.Query, timeout))
	defer cancel()
	limited, stop := watchHeap(limited)
	defer stop()
	err := j.run(limited, code, input, limit)
	if err != nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}

func jqTimeout(query string, timeout time.Duration) error {
	return tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s", tools.Excerpt(query, 200), timeout)
}

func badQuery(query string, err error) error {
	return tools.Errorf(tools.CodeInvalidArguments, "bad jq query %q: %v", tools.Excerpt(query, 200), err)
}

// run applies the query to each JSON value of the input.
func (j *JQResult) run(ctx context.Context, code *gojq.Code, src io.Reader, limit int) error {
	dec := json.NewDecoder(src)
	dec.UseNumber()
	for {
		var input any
		switch err := dec.Decode(&input); {
		case err == io.EOF:
			return nil
		case err != nil:
			return tools.Errorf(tools.CodeInvalidArguments, "the artifact %q is not JSON (%v); use %s or %s", j.ArtifactID, err, ToolGrep, ToolLines)
		}
		iter := code.RunWithContext(ctx, input)
		for {
			v, ok := iter.Next()
			if !ok {
				break
			}
			if err, ok := v.(error); ok {
				if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
					return nil
				}
				return badQuery(j.Query, err)
			}
			var text []byte
			tooLong := minJSONLen(v, limit) > limit // then its encoding might not fit into memory
			if !tooLong {
				var err error
				if text, err = gojq.Marshal(v); err != nil {
					return badQuery(j.Query, err)
				}
				tooLong = len(text) > limit
			}
			switch {
			case tooLong && len(j.Results) == 0:
				return tools.Errorf(tools.CodeInvalidArguments, "the first result of the query %q is longer than the %d characters that can be shown; narrow it, for instance with keys, length, or .[:10]", tools.Excerpt(j.Query, 200), limit)
			case tooLong:
				j.Limited = true
				return nil
			}
			limit -= len(text) + 1
			j.Results = append(j.Results, text)
		}
	}
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
