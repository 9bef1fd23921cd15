package offload

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
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

// TestJQHoldsAllRows: a query that needs all rows gets them, in the memory of the process. A document has
// at most 30 MB then, as in "make hostile"; here it has just more than is held as a whole.
func TestJQHoldsAllRows(t *testing.T) {
	slow.Test(t)
	size := 9_000_000
	if os.Getenv("STEVEDORE_HOSTILE") != "" {
		size = 30_000_000
	}
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "rows", rowsOf(size, "of a row"))
	r := NewReader(store, ReaderConfig{Pool: newPool(), JQTime: 10 * time.Minute})
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
