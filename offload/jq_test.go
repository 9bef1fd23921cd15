package offload

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestJQ(t *testing.T) {
	r := stored(t, []byte(`{"items":[{"id":1,"price":1.10},{"id":12345678901234567890,"price":1e400}],"html":"<b>\u2028"}`))
	for query, want := range map[string]string{
		".items | length":              "Found 1 result(s) for query '.items | length' in knowledge#a\n\n2",
		".items[].id":                  "Found 2 result(s) for query '.items[].id' in knowledge#a\n\n1\n12345678901234567890",
		".items[].price":               "Found 2 result(s) for query '.items[].price' in knowledge#a\n\n1.10\n1e400",
		".html, .none":                 "Found 2 result(s) for query '.html, .none' in knowledge#a\n\n\"<b>\u2028\"\nnull",
		"empty":                        "Found 0 result(s) for query 'empty' in knowledge#a",
		"1, halt, 2":                   "Found 1 result(s) for query '1, halt, 2' in knowledge#a\n\n1",
		"$ENV | length, (env|length)":  "Found 2 result(s) for query '$ENV | length, (env|length)' in knowledge#a\n\n0\n0",
		".items | map(select(.id==1))": "Found 1 result(s) for query '.items | map(select(.id==1))' in knowledge#a\n\n[{\"id\":1,\"price\":1.10}]",
	} {
		res, err := r.JQ(t.Context(), "s", "a", query)
		if err != nil {
			t.Errorf("jq %q: %v", query, err)
		} else if got := res.Text(); got != want {
			t.Errorf("jq %q is\n%s\nwant\n%s", query, got, want)
		}
	}
	for query, text := range map[string]string{
		".[":                      "bad jq query",
		"nothing":                 "function not defined",
		".items.x":                "expected an object",
		`error("x")`:              "x",
		`import "m" as m; 1`:      "bad jq query",
		"input":                   "bad jq query",
		strings.Repeat(".", 5000): "at most 4096",
	} {
		_, err := r.JQ(t.Context(), "s", "a", query)
		wantCode(t, err, tools.CodeInvalidArguments, text)
	}
}

func TestJQOfSeveralValues(t *testing.T) {
	r := stored(t, []byte("{\"n\":1}\n{\"n\":2}\n"))
	res, err := r.JQ(t.Context(), "s", "a", ".n")
	if err != nil || len(res.Results) != 2 || string(res.Results[1]) != "2" {
		t.Errorf("results are %s, %v", res.Results, err)
	}
}

// TestJQOfCommandOutput: the exit code of a command may follow its JSON.
func TestJQOfCommandOutput(t *testing.T) {
	for content, want := range map[string]string{
		"{\"n\":1}\n[Exit code: 0]":                "1",
		"{\"n\":1}\n{\"n\":2}\n[Exit code: 137]\n": "1 2",
		"[Exit code: 0]":                           "",
		"{\"n\":1} [Exit code: 0]":                 "",
		"{\"n\":1}\n[Exit code: 0]\nmore":          "",
	} {
		res, err := stored(t, []byte(content)).JQ(t.Context(), "s", "a", ".n")
		if want == "" {
			wantCode(t, err, tools.CodeInvalidArguments, "is not JSON")
			continue
		}
		var got []string
		if err == nil {
			for _, r := range res.Results {
				got = append(got, string(r))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", content, got, err, want)
		}
	}
}

func TestJQBounds(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "text", []byte("just text"))
	putArtifact(t, store, "s", "big", []byte("["+strings.Repeat("1,", 5<<20)+"1]"))
	putArtifact(t, store, "s", "json", []byte(`[`+strings.Repeat(`"0123456789",`, 10_000)+`1]`))
	r := NewReader(store, ReaderConfig{JQTime: time.Minute})
	for _, row := range []struct{ id, query, code, text string }{
		{"text", ".", tools.CodeInvalidArguments, "is not JSON"},
		{"big", ".", tools.CodeInvalidArguments, "jq accepts at most 8388608; use grep_knowledge"},
		{"json", ".", tools.CodeInvalidArguments, "longer than the 15000 characters"},
	} {
		_, err := r.JQ(t.Context(), "s", row.id, row.query)
		wantCode(t, err, row.code, row.text)
	}
	res, err := r.JQ(t.Context(), "s", "json", ".[]")
	if err != nil || !res.Limited || len(res.Results) < 1_000 || len(res.Text()) > 41_000 {
		t.Errorf("many results: %d, limited %v, %v", len(res.Results), res.Limited, err)
	}
	// Only the check of the heap stops this query.
	_, err = r.JQ(t.Context(), "s", "json", `[range(1e12) | tostring * 100000] | length`)
	wantCode(t, err, tools.CodeInvalidArguments, "needs too much memory")
	r = NewReader(store, ReaderConfig{JQTime: 200 * time.Millisecond})
	for _, query := range []string{"last(range(1e12))", "def f: f; f"} {
		_, err = r.JQ(t.Context(), "s", "json", query)
		wantCode(t, err, tools.CodeTimeout, "took longer than 200ms")
	}
}

// TestJQInProcess: a separate process gives the same results, and no query takes
// memory of this process.
func TestJQInProcess(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "a", []byte(`{"id":12345678901234567890,"price":1e400,"html":"<b>\u2028"}`+"\n1"))
	putArtifact(t, store, "s", "text", []byte("just text"))
	putArtifact(t, store, "s", "big", []byte("["+strings.Repeat("1,", 100_000)+"1]"))
	cfg := ReaderConfig{JQCommand: []string{os.Args[0], jqTestCommand}, JQTime: time.Minute}
	if env, err := exec.LookPath("env"); err == nil { // the race detector waits a second at each exit
		cfg.JQCommand = append([]string{env, "GORACE=atexit_sleep_ms=0"}, cfg.JQCommand...)
	}
	r := NewReader(store, cfg)
	res, err := r.JQ(t.Context(), "s", "a", ".")
	if want := "Found 2 result(s) for query '.' in knowledge#a\n\n" + `{"html":"<b>` + "\u2028" + `","id":12345678901234567890,"price":1e400}` + "\n1"; err != nil || res.Text() != want {
		t.Errorf("results are %+v, %v; want %s", res, err, want)
	}
	if res, err := r.JQ(t.Context(), "s", "a", "empty"); err != nil || len(res.Results) != 0 {
		t.Errorf("nothing is %+v, %v", res, err)
	}
	if res, err := r.JQ(t.Context(), "s", "big", "length"); err != nil || string(res.Results[0]) != "100001" {
		t.Errorf("the length of a large array is %+v, %v", res, err)
	}
	if res, err := r.JQ(t.Context(), "s", "a", "range(1e9)"); err != nil || !res.Limited || len(res.Results) < 1_000 {
		t.Errorf("many results: limited %v, %v", res.Limited, err)
	}
	for _, row := range []struct{ id, query, text string }{
		{"text", ".", "is not JSON"},
		{"a", ".x.y.z[", "bad jq query"},
		{"a", `error("mine")`, "mine"},
		{"a", `"x" * 2e9 | length`, "needs too much memory"}, // in one step
	} {
		if row.text == "needs too much memory" && !limitsMemory {
			continue
		}
		_, err := r.JQ(t.Context(), "s", row.id, row.query)
		wantCode(t, err, tools.CodeInvalidArguments, row.text)
	}
	cfg.JQTime = 200 * time.Millisecond
	_, err = NewReader(store, cfg).JQ(t.Context(), "s", "a", "last(range(1e12))")
	wantCode(t, err, tools.CodeTimeout, "took longer than 200ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.JQ(ctx, "s", "a", "."); !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose context has ended: %v", err)
	}
	cfg.JQCommand = []string{os.Args[0] + ".none"}
	if _, err := NewReader(store, cfg).JQ(t.Context(), "s", "a", "."); tools.CodeOf(err) != tools.CodeToolFailed {
		t.Errorf("without the program: %v", err)
	}
}
