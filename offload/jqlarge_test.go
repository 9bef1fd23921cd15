package offload

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// rowsOf returns a JSON array of about size bytes.
func rowsOf(size int, text string) []byte {
	var doc bytes.Buffer
	for i := 0; doc.Len() < size; i++ {
		fmt.Fprintf(&doc, `,{"id":%d,"name":"user%d","city":"c%d","score":%d.25,"text":"%s"}`, i, i%5000, i%3, i*7919%100003, text)
	}
	data := append(doc.Bytes(), ']')
	data[0] = '['
	return data
}

// TestJQOfThirtyMegabytes: a query that needs all rows gets them, in the memory of the process.
func TestJQOfThirtyMegabytes(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "rows", rowsOf(30_000_000, "of a row"))
	cfg := ReaderConfig{JQCommand: []string{os.Args[0], jqTestCommand}, JQTime: 10 * time.Minute}
	if env, err := exec.LookPath("env"); err == nil {
		cfg.JQCommand = append([]string{env, "GORACE=atexit_sleep_ms=0"}, cfg.JQCommand...)
	}
	r := NewReader(store, cfg)
	for query, want := range map[string]string{
		"group_by(.city) | map(.[0].city)": `["c0","c1","c2"]`, // holds as much as unique_by
		"max_by(.score) | .score":          "100002.25",
	} {
		res, err := r.JQ(t.Context(), "s", "rows", JQQuery{Query: query})
		if err != nil || len(res.Results) != 1 || string(res.Results[0]) != want {
			t.Errorf("jq %q is %+v, %v; want %s", query, res, err, want)
		}
	}
}

// TestJQWaitsForOthers: queries on large artifacts run one after the other, and do not wait for
// ever.
func TestJQWaitsForOthers(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "large", rowsOf(9_000_000, strings.Repeat("long text ", 200)))
	putArtifact(t, store, "s", "small", []byte("[1]"))
	r := NewReader(store, ReaderConfig{JQTime: 20 * time.Millisecond})
	r.largeJQ <- struct{}{}
	_, err := r.JQ(t.Context(), "s", "large", JQQuery{Query: "length"})
	wantCode(t, err, tools.CodeTimeout, "this one waited 20ms for them")
	r.cfg.JQTime = time.Minute
	if _, err := r.JQ(t.Context(), "s", "small", JQQuery{Query: "length"}); err != nil {
		t.Errorf("a small artifact waits for a large one: %v", err)
	}
	go func() { <-r.largeJQ }()
	if _, err := r.JQ(t.Context(), "s", "large", JQQuery{Query: "length"}); err != nil {
		t.Errorf("after the other query: %v", err)
	}
}
