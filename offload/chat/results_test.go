package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOffloadResultsKeepsTheBlocks(t *testing.T) {
	in := `{"role":"user","x":1.0,"content":[` +
		`{"type":"text","text":"here"},` +
		`{"type":"tool_result","content":"one","cache_control":{"type":"ephemeral"},"tool_use_id":"a","is_error":true},` +
		`{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"<two>"}]},` +
		`{"type":"tool_result","tool_use_id":"c"},` +
		`{"type":"tool_result","tool_use_id":"d","content":""},` +
		`{"type":"tool_result","tool_use_id":"e","content":null},7]}`
	want := `{"role":"user","x":1.0,"content":[` +
		`{"type":"text","text":"here"},` +
		`{"type":"tool_result","content":"[Tool result offloaded to file: d/s/a.md]","cache_control":{"type":"ephemeral"},"tool_use_id":"a","is_error":true},` +
		`{"type":"tool_result","tool_use_id":"b","content":"[Tool result offloaded to file: d/s/b.md]"},` +
		`{"type":"tool_result","tool_use_id":"c"},` +
		`{"type":"tool_result","tool_use_id":"d","content":""},` +
		`{"type":"tool_result","tool_use_id":"e","content":null},7]}`
	w := newMemory()
	m := message(t, in)
	res, err := OffloadResultsTo(t.Context(), m, "s", "d", 0, w)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Message.String(); got != want {
		t.Errorf("message\n got %s\nwant %s", got, want)
	}
	if m.String() != in {
		t.Errorf("the input changed: %s", m)
	}
	if w.files["d/s/a.md"] != "one" || w.files["d/s/b.md"] != `[{"type":"text","text":"<two>"}]` || len(w.files) != 2 {
		t.Errorf("files %q", w.files)
	}
	if res.File != "d/s/a.md" || strings.Join(res.Files, " ") != "d/s/a.md d/s/b.md" {
		t.Errorf("files %q and %q", res.File, res.Files)
	}
	if want := 3 + 32 - 2*length("[Tool result offloaded to file: d/s/a.md]"); res.FreedChars != want {
		t.Errorf("freed %d, want %d", res.FreedChars, want)
	}
}

func TestOffloadResultsOfAString(t *testing.T) {
	w := newMemory()
	res, err := OffloadResultsTo(t.Context(), message(t, `{"role":"tool","content":"text","tool_call_id":"x"}`), "s", "d", 0, w)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.Message.String(), `{"role":"tool","content":"[Tool result offloaded to file: d/s/x.md]","tool_call_id":"x"}`; got != want {
		t.Errorf("message %s, want %s", got, want)
	}
	if w.files["d/s/x.md"] != "text" {
		t.Errorf("files %q", w.files)
	}
}

func TestOffloadResultsMinChars(t *testing.T) {
	in := message(t, user(result("a", strings.Repeat("😀", 5)), result("b", strings.Repeat("中", 9))))
	res, err := OffloadResultsTo(t.Context(), in, "s", "d", 10, newMemory())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(res.Files, " ") != "d/s/a.md" {
		t.Errorf("files %q, want a's only", res.Files)
	}
	none, err := OffloadResultsTo(t.Context(), in, "s", "d", 11, newMemory())
	if err != nil || none.Message != in || none.File != "" || none.FreedChars != 0 {
		t.Errorf("nothing to do gives %+v, %v", none, err)
	}
}

// Regression: an id without a name makes every result unknown.md.
func TestResultsWithoutIDShareNoFile(t *testing.T) {
	dir := t.TempDir()
	blank := func(s string) string { return `{"type":"tool_result","content":` + Quote(s) + `}` }
	var files []string
	for _, in := range []string{user(blank("1"), blank("2")), user(result("", "3")), `{"content":"4"}`} {
		res, err := OffloadResults(t.Context(), message(t, in), "s", dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, res.Files...)
	}
	for i, want := range []string{"1", "2", "3", "4"} {
		wantFile(t, files[i], want)
	}
	wantFiles(t, dir, "s/unknown-1.md", "s/unknown-2.md", "s/unknown-3.md", "s/unknown.md")
}

// Regression: a reused id serving stale content.
func TestReusedIDServesItsOwnContent(t *testing.T) {
	dir := t.TempDir()
	offload := func(content string) string {
		t.Helper()
		res, err := OffloadResults(t.Context(), message(t, user(result("a", content))), "s", dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		return res.File
	}
	first, second, again := offload("first"), offload("second"), offload("first")
	wantFile(t, first, "first")
	wantFile(t, second, "second")
	if again != first {
		t.Errorf("the same content went to %q, not to %q again", again, first)
	}
	wantFiles(t, dir, "s/a-1.md", "s/a.md")
}

func TestOffloadResultsTwiceChangesNothing(t *testing.T) {
	dir := t.TempDir()
	first, err := OffloadResults(t.Context(), message(t, user(result("a", "x"), result("a", "y"))), "s", dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OffloadResults(t.Context(), first.Message, "s", dir, 0)
	if err != nil || second.Message != first.Message || len(second.Files) != 0 {
		t.Errorf("the second run gives %+v, %v", second, err)
	}
	wantFile(t, first.Files[0], "x")
	wantFile(t, first.Files[1], "y")
}

func TestOffloadResultsReportsEachFailure(t *testing.T) {
	m := message(t, user(result("a", "x"), result("b", "y")))
	for failAt := 1; failAt <= 2; failAt++ {
		for _, late := range []bool{false, true} {
			w := &memory{files: map[string]string{}, failAt: failAt, late: late}
			res, err := OffloadResultsTo(t.Context(), m, "s", "d", 0, w)
			if !errors.Is(err, errDisk) || res.Message != (Message{}) {
				t.Errorf("failure at %d: %+v, %v", failAt, res, err)
			}
			w.failAt = 0 // healed
			res, err = OffloadResultsTo(t.Context(), m, "s", "d", 0, w)
			if err != nil || strings.Join(res.Files, " ") != "d/s/a.md d/s/b.md" {
				t.Errorf("running again: %+v, %v", res, err)
			}
		}
	}
}

func TestCreateFileNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	f, err := newFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(path("directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("missing", path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("file"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The size of a link is the length of its target, here 3 bytes like the content.
	if err := os.WriteFile(path("abc"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("abc", path("alias")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, content string
		want          error
	}{
		{"file", "abc", nil}, {"file", "abd", ErrFileExists}, {"file", "ab", ErrFileExists}, {"file", "", ErrFileExists},
		{"directory", "x", ErrFileExists}, {"link", "x", ErrFileExists}, {"alias", "abc", ErrFileExists}, {"new", "x", nil}, {"new", "y", ErrFileExists},
	} {
		if err := f.CreateFile(t.Context(), path(test.name), test.content); !errors.Is(err, test.want) {
			t.Errorf("create %s with %q: %v, want %v", test.name, test.content, err, test.want)
		}
	}
	wantFile(t, path("file"), "abc")
	wantFiles(t, dir, "abc", "alias", "file", "link", "new")

	// The fallback for file systems without hard links replaces no file either.
	for _, name := range []string{"file", "fresh"} {
		temp, err := f.durable().CreateTemp("temp", filePerm)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := temp.WriteString("t"); err != nil {
			t.Fatal(err)
		}
		err = f.renameWithoutLink(temp, name)
		if exists := name == "file"; errors.Is(err, os.ErrExist) != exists || (err != nil) != exists {
			t.Errorf("renameWithoutLink %s: %v", name, err)
		}
		if err := temp.Discard(); err != nil {
			t.Error(err)
		}
	}
	wantFile(t, path("file"), "abc")
	wantFile(t, path("fresh"), "t")
}
