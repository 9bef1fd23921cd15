package chat

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOffloadMessageTo(t *testing.T) {
	long := strings.Repeat("x", 1000)
	array := `[` + result("toolu_1", long) + `]`
	for _, test := range []struct {
		name, in, session, dir string
		path, content, message string
	}{
		{
			"a string", `{"role":"user","content":"` + long + `"}`, "session-abc123", ".offload",
			".offload/session-abc123/unknown.md", long,
			`{"role":"user","content":"[Tool result offloaded to file: .offload/session-abc123/unknown.md]"}`,
		}, {
			"blocks", `{"role":"user","content":` + array + `}`, "s", "/out",
			"/out/s/toolu_1.md", array,
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/toolu_1.md]"}`,
		}, {
			"short", `{"role":"user","content":"x"}`, "s", "/out", // the caller decides
			"/out/s/unknown.md", "x",
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		}, {
			"empty string", `{"role":"user","content":""}`, "s", "/out",
			"/out/s/unknown.md", "",
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		}, {
			"no blocks", `{"role":"user","content":[]}`, "s", "/out",
			"/out/s/unknown.md", "[]",
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		}, {
			"the first tool_result names it",
			user(`{"type":"text","text":"t","tool_use_id":"no"}`, result("first", "1"), result("second", "2")), "s", "/out",
			"/out/s/first.md", `[{"type":"text","text":"t","tool_use_id":"no"},` + result("first", "1") + `,` + result("second", "2") + `]`,
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/first.md]"}`,
		}, {
			"an id that is no string", user(`{"type":"tool_result","tool_use_id":7,"content":"x"}`), "s", "/out",
			"/out/s/unknown.md", `[{"type":"tool_result","tool_use_id":7,"content":"x"}]`,
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		}, {
			"an empty id", user(result("", "x")), "s", "/out",
			"/out/s/unknown.md", `[` + result("", "x") + `]`,
			`{"role":"user","content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		}, {
			"other fields keep order and text", `{"z":1.0,"content":"x","role":"user","a":{"9":1e3,"2":"\u003c"}}`, "s", "./out//",
			"./out//s/unknown.md", "x",
			`{"z":1.0,"content":"[Tool result offloaded to file: ./out//s/unknown.md]","role":"user","a":{"9":1e3,"2":"<"}}`,
		}, {
			"blocks are written as JSON.stringify has them", `{"content":[ {"type":"image", "n":1.0, "t":"\u003c\u2028\ud800\/" } , "s"]}`, "s", "/out",
			"/out/s/unknown.md", "[{\"type\":\"image\",\"n\":1.0,\"t\":\"<\u2028\\ud800/\"},\"s\"]",
			`{"content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		}, {
			"a string is written as it is", `{"content":"{\"a\":1}\r\n\u003c😀\ud800"}`, "s", "/out",
			"/out/s/unknown.md", "{\"a\":1}\r\n<😀\ufffd",
			`{"content":"[Tool result offloaded to file: /out/s/unknown.md]"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := message(t, test.in)
			before := m.String()
			w := newMemory()
			res, err := OffloadMessageTo(t.Context(), m, test.session, test.dir, w)
			if err != nil {
				t.Fatal(err)
			}
			if res.File != test.path || len(res.Files) != 1 || res.Files[0] != test.path {
				t.Errorf("files %q and %q, want %q", res.File, res.Files, test.path)
			}
			if got := w.files[test.path]; got != test.content || len(w.files) != 1 {
				t.Errorf("files written: %q, want %q", w.files, test.content)
			}
			if got := res.Message.String(); got != test.message {
				t.Errorf("message\n got %s\nwant %s", got, test.message)
			}
			want := m.Length() - length("[Tool result offloaded to file: "+test.path+"]")
			if res.FreedChars != want {
				t.Errorf("freed %d, want %d", res.FreedChars, want)
			}
			if m.String() != before {
				t.Errorf("the input changed: %s", m)
			}
		})
	}
}

func TestFreedCharsAreUTF16(t *testing.T) {
	for _, test := range []struct {
		content string
		want    int // with a reference of 50 characters
	}{
		{`"` + strings.Repeat("x", 1000) + `"`, 950},
		{`"` + strings.Repeat("😀", 500) + `"`, 950},
		{`"` + strings.Repeat("中", 999) + `"`, 949},
		{`"\ud800"`, -49},
		{`[]`, -48},
	} {
		w := newMemory()
		res, err := OffloadMessageTo(t.Context(), message(t, `{"content":`+test.content+`}`), "s", "/123", w)
		if err != nil {
			t.Fatal(err)
		}
		if res.FreedChars != test.want {
			t.Errorf("content %.30s: freed %d, want %d (reference %s)", test.content, res.FreedChars, test.want, res.Message)
		}
	}
}

func TestOffloadMessageWritesAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(here, dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := OffloadMessage(t.Context(), message(t, user(result("toolu_1", "old"))), "s 1", rel)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, fileName("s 1"), "toolu_1.md"); res.File != want {
		t.Errorf("file %q, want the absolute %q", res.File, want)
	}
	wantFile(t, res.File, `[`+result("toolu_1", "old")+`]`)

	// The same id replaces the file, another session does not.
	if _, err := OffloadMessage(t.Context(), message(t, user(result("toolu_1", "new"))), "s 1", dir); err != nil {
		t.Fatal(err)
	}
	wantFile(t, res.File, `[`+result("toolu_1", "new")+`]`)
	if _, err := OffloadMessage(t.Context(), message(t, user(result("toolu_1", "other"))), "s2", dir); err != nil {
		t.Fatal(err)
	}
	wantFile(t, res.File, `[`+result("toolu_1", "new")+`]`)
	wantFiles(t, dir, filepath.Join(fileName("s 1"), "toolu_1.md"), "s2/toolu_1.md")
}

func TestOffloadMessageStaysInItsDirectory(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	for _, id := range []string{"../../evil", "/evil", "a\x00b", "..", strings.Repeat("../", 5000)} {
		res, err := OffloadMessage(t.Context(), message(t, user(result(id, "x"))), id, dir)
		if err != nil {
			t.Fatalf("id %.20q: %v", id, err)
		}
		if filepath.Dir(filepath.Dir(res.File)) != dir {
			t.Errorf("id %.20q: file %q is not two below %q", id, res.File, dir)
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("the parent directory has %v, %v", entries, err)
	}
	// A link to the outside is not followed.
	if err := os.Symlink(parent, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if res, err := OffloadMessage(t.Context(), message(t, user(result("a", "x"))), "link", dir); err == nil {
		t.Errorf("a file was written through a link: %s", res.File)
	}
}

func TestOffloadMessageReportsWriteErrors(t *testing.T) {
	m := message(t, user(result("a", "x")))
	for _, late := range []bool{false, true} {
		w := &memory{files: map[string]string{}, failAt: 1, late: late}
		res, err := OffloadMessageTo(t.Context(), m, "s", "/d", w)
		if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), errDisk.Error()) || !strings.Contains(err.Error(), `"/d/s/a.md"`) {
			t.Errorf("error %v", err)
		}
		if res.Message != (Message{}) || res.File != "" {
			t.Errorf("a result beside the error: %+v", res)
		}
	}
	for _, in := range []string{`{"role":"user"}`, `{"content":null}`} {
		if _, err := OffloadMessageTo(t.Context(), message(t, in), "s", "/d", newMemory()); !errors.Is(err, ErrNoContent) {
			t.Errorf("%s: error %v", in, err)
		}
		if _, err := OffloadResultsTo(t.Context(), message(t, in), "s", "/d", 0, newMemory()); !errors.Is(err, ErrNoContent) {
			t.Errorf("%s: error %v", in, err)
		}
	}
	if _, err := OffloadMessageTo(t.Context(), m, "s", "/d\xff", newMemory()); err == nil {
		t.Error("a path that is not UTF-8 was accepted")
	}
}

func TestParseRefusesWrongShapes(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                "it is an array, not an object",
		`"x"`:                               "it is a string, not an object",
		`{"content":5}`:                     "its content is a number",
		`{"content":{}}`:                    "its content is an object",
		`{"content":true}`:                  "its content is a boolean",
		`{"content":"a","\u0063ontent":""}`: `the field "content" occurs twice`,
		`{"content":[1,{"type":"a","type":"b"}]}`: `block 1: the field "type" occurs twice`,
	} {
		if _, err := ParseMessage([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMessage(%s): error %v, want %q", in, err, want)
		}
	}
	for in, want := range map[string]string{
		`{}`:                 "the history is an object, not an array",
		`[{"content":[]},7]`: "message 1: it is a number",
	} {
		if _, err := ParseHistory([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseHistory(%s): error %v, want %q", in, err, want)
		}
	}
}

// Regression: offloading twice overwrites the original with a reference.
func TestOffloadingAMessageTwiceKeepsTheOriginal(t *testing.T) {
	dir := t.TempDir()
	for _, in := range []string{`{"content":"the original"}`, user(result("a", "the original"))} {
		first, err := OffloadMessage(t.Context(), message(t, in), "s", dir)
		if err != nil {
			t.Fatal(err)
		}
		original, err := os.ReadFile(first.File)
		if err != nil {
			t.Fatal(err)
		}
		second, err := OffloadMessage(t.Context(), first.Message, "s", dir)
		if err != nil {
			t.Fatal(err)
		}
		again := second.Message == first.Message && second.FreedChars == 0 && second.File == first.File
		if hadID := filepath.Base(first.File) == "a.md"; again == hadID { // with a lost id, it is not the same call
			t.Errorf("the second run made %+v", second)
		}
		wantFile(t, first.File, string(original))
	}
	// Also if the two forms are mixed.
	paired, err := OffloadResults(t.Context(), message(t, user(result("b", "the original"))), "s", dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OffloadMessage(t.Context(), paired.Message, "s", dir); err != nil {
		t.Fatal(err)
	}
	wantFile(t, paired.File, "the original")
}

// Regression: plain-text results replaced by "" because JSON was expected.
func TestPlainTextIsKept(t *testing.T) {
	for _, text := range []string{"total 12\n-rw-r--r-- 1 a b", "{not json", "", "null", "\"", "\x00"} {
		w := newMemory()
		if _, err := OffloadMessageTo(t.Context(), message(t, `{"content":`+Quote(text)+`}`), "s", "/d", w); err != nil {
			t.Fatal(err)
		}
		if got := w.files["/d/s/unknown.md"]; got != text {
			t.Errorf("wrote %q, want %q", got, text)
		}
	}
}

// The package prepends the directory of the caller without cleaning it.
func TestDirectoryStaysAsItWasGiven(t *testing.T) {
	for dir, want := range map[string]string{
		"./out": "./out/s/a.md",
		"../o":  "../o/s/a.md",
		"o//p":  "o//p/s/a.md",
		"out/":  "out/s/a.md",
		".":     "./s/a.md",
		"/":     "/s/a.md",
		"":      "s/a.md",
	} {
		m := message(t, user(result("a", strings.Repeat("x", 100))))
		res, err := OffloadMessageTo(t.Context(), m, "s", dir, newMemory())
		if err != nil {
			t.Fatal(err)
		}
		if res.File != want {
			t.Errorf("OffloadMessageTo in %q wrote %q, want %q", dir, res.File, want)
		}
		if res, err = OffloadResultsTo(t.Context(), m, "s", dir, 0, newMemory()); err != nil {
			t.Fatal(err)
		}
		if res.File != want {
			t.Errorf("OffloadResultsTo in %q wrote %q, want %q", dir, res.File, want)
		}
	}
	history, err := OffloadHistoryTo(t.Context(), []Message{message(t, user(result("a", strings.Repeat("x", 100))))}, "./out", Options{}, newMemory())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"./out/tool-result-a.md"}; !slices.Equal(history.Files, want) {
		t.Errorf("OffloadHistoryTo wrote %q, want %q", history.Files, want)
	}
}

// A result that was offloaded before must not keep the others in the context.
func TestReferenceInALaterResultIsOffloaded(t *testing.T) {
	in := message(t, user(result("a", strings.Repeat("x", 100)), result("b", "[Tool result offloaded to file: /d/s/b.md]")))
	w := newMemory()
	res, err := OffloadMessageTo(t.Context(), in, "s", "/d", w)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := w.files["/d/s/a.md"], in.contentText(); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	if got, want := res.Message.contentText(), `"[Tool result offloaded to file: /d/s/a.md]"`; got != want {
		t.Errorf("content %s, want %s", got, want)
	}
	// It does if it refers to the same file.
	in = message(t, user(result("a", "short"), result("a", "[Tool result offloaded to file: /d/s/a.md]")))
	if res, err = OffloadMessageTo(t.Context(), in, "s", "/d", w); err != nil {
		t.Fatal(err)
	}
	if res.Message != in || len(w.order) != 1 {
		t.Errorf("replaced the original: %q, %v", res.Message, w.order)
	}
}

// Only the reference that the same call would write is a reference.
func TestOtherReferencesAreData(t *testing.T) {
	for _, text := range []string{
		"[Tool result offloaded to file: /d/s/other.md]", "[Tool result offloaded to file: /elsewhere/unknown.md]", "[Content offloaded to: ./tool-result-a.md]",
	} {
		w := newMemory()
		res, err := OffloadMessageTo(t.Context(), message(t, `{"content":`+Quote(text)+`}`), "s", "/d", w)
		if err != nil || w.files["/d/s/unknown.md"] != text || res.File != "/d/s/unknown.md" {
			t.Errorf("%s: %+v, %v", text, res, err)
		}
	}
	w := newMemory()
	own := message(t, `{"content":"[Tool result offloaded to file: /d/s/unknown.md]"}`)
	if res, err := OffloadMessageTo(t.Context(), own, "s", "/d", w); err != nil || res.Message != own || len(w.files) != 0 {
		t.Errorf("the own reference: %+v, %v, %v", res, err, w.files)
	}
}

// tool_call_id names the file of OpenAI's messages.
func TestToolCallID(t *testing.T) {
	long := strings.Repeat("x", 200)
	in := `{"role":"tool","tool_call_id":"call_1","content":"` + long + `"}`
	w := newMemory()
	res, err := OffloadMessageTo(t.Context(), message(t, in), "s", "/d", w)
	if err != nil || res.File != "/d/s/call_1.md" || w.files[res.File] != long {
		t.Errorf("message: %+v, %v", res, err)
	}
	dir := t.TempDir()
	history, err := ParseHistory([]byte(`[` + in + `,` + in + `,{"role":"user","tool_call_id":"x","content":"` + long + `"},{"role":"tool","content":"` + long + `"},{"role":"tool","tool_call_id":"short","content":"x"}]`))
	if err != nil {
		t.Fatal(err)
	}
	all, err := OffloadHistory(t.Context(), history, dir, Options{})
	if err != nil || all.OffloadedCount != 3 || all.FreedChars != 600 || filepath.Base(all.Files[1]) != "tool-result-call_1-1.md" ||
		all.Messages[0].String() != `{"role":"tool","tool_call_id":"call_1","content":"[Content offloaded to: ./tool-result-call_1.md]"}` {
		t.Errorf("history: %+v, %v", all, err)
	}
	again, err := OffloadHistory(t.Context(), all.Messages, dir, Options{})
	if err != nil || again.OffloadedCount != 0 {
		t.Errorf("offloaded again: %+v, %v", again, err)
	}
}
