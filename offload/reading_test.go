package offload

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/tools"
)

// stored puts content into an empty store as artifact "a" of session "s", and returns
// a Reader.
func stored(t testing.TB, content []byte) *Reader {
	t.Helper()
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "a", content)
	return NewReader(store, ReaderConfig{})
}

func putArtifact(t testing.TB, store Store, session, id string, content []byte) Record {
	t.Helper()
	rec := newRecord(tools.Call{ID: id, Session: session, Tool: "t"}, ContextToolResult)
	rec.ID = tools.Token(id)
	rec, err := store.Put(t.Context(), rec, bytes.NewReader(content), summarize(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// trickyTexts returns contents that are hard to read correctly.
func trickyTexts() map[string][]byte {
	random := make([]byte, 3*index.BlockSize+17)
	src := rand.NewChaCha8([32]byte{1})
	for i := range random {
		random[i] = byte(src.Uint64())
	}
	return map[string][]byte{
		"empty":               nil,
		"newline":             []byte("\n"),
		"no final newline":    []byte("a\nb\nc"),
		"final newline":       []byte("a\nb\nc\n"),
		"crlf":                []byte("a\r\nb\r\n\r\nc"),
		"emoji":               []byte(strings.Repeat("👩‍🚀😀\n漢字 text\n", 20_000)),
		"one long line":       []byte(strings.Repeat("é日😀x", 100_000)),
		"bad utf-8":           []byte("a\xff\xfe\nb\xe2\x82\nc\xf0\x9f\x98"),
		"cut rune at a block": []byte(strings.Repeat("x", index.BlockSize-1) + "😀\n" + strings.Repeat("y", index.BlockSize)),
		"random":              random,
		"many empty lines":    bytes.Repeat([]byte("\n"), index.BlockSize+3),
	}
}

func TestGetByIDPagesGiveTheOriginalBytes(t *testing.T) {
	t.Parallel()
	for name, content := range trickyTexts() {
		t.Run(name, func(t *testing.T) {
			checkPages(t, stored(t, content), content, PageChars)
		})
	}
}

func checkPages(t *testing.T, r *Reader, content []byte, limit int64) {
	t.Helper()
	var got []byte
	for offset := int64(0); ; {
		page, err := r.GetByID(t.Context(), "s", "a", offset, limit)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Bytes()...)
		if n := int64(len([]rune(page.Content))); n != page.Chars || n > PageChars {
			t.Fatalf("page at %d has %d characters and says %d", offset, n, page.Chars)
		}
		if page.NextOffset == 0 {
			break
		}
		if page.NextOffset != offset+page.Chars {
			t.Fatalf("next offset is %d after %d characters from %d", page.NextOffset, page.Chars, offset)
		}
		offset = page.NextOffset
	}
	if !bytes.Equal(got, content) {
		t.Errorf("the pages give %d bytes that are not the %d original ones", len(got), len(content))
	}
}

func TestGetByLinesGivesTheOriginalBytes(t *testing.T) {
	t.Parallel()
	for name, content := range trickyTexts() {
		t.Run(name, func(t *testing.T) {
			checkLines(t, stored(t, content), content, 997)
		})
	}
}

// checkLines reads all lines, step lines at a time, and pages through lines that are
// too long.
func checkLines(t *testing.T, r *Reader, content []byte, step int64) {
	t.Helper()
	want := bytes.Split(content, []byte("\n"))
	total := int64(len(want))
	var got [][]byte
	for start := int64(1); start <= total; {
		lines, err := r.GetByLines(t.Context(), "s", "a", LinesQuery{StartLine: start, EndLine: start + step - 1})
		if err != nil {
			t.Fatal(err)
		}
		if lines.TotalLines != total || lines.StartLine != start {
			t.Fatalf("lines from %d say %d of %d, want of %d", start, lines.StartLine, lines.TotalLines, total)
		}
		part := bytes.Split(lines.Bytes(), []byte("\n"))
		if int64(len(part)) != lines.EndLine-start+1 {
			t.Fatalf("lines %d to %d are %d", start, lines.EndLine, len(part))
		}
		for lines.NextCursor != "" {
			last := lines.EndLine
			if lines, err = r.GetByLines(t.Context(), "s", "a", LinesQuery{Cursor: lines.NextCursor}); err != nil {
				t.Fatal(err)
			}
			more := bytes.Split(lines.Bytes(), []byte("\n"))
			if lines.StartLine == last { // in the middle of a line
				part[len(part)-1] = append(part[len(part)-1], more[0]...)
				more = more[1:]
			}
			part = append(part, more...)
		}
		got = append(got, part...)
		start = lines.EndLine + 1
	}
	if !bytes.Equal(bytes.Join(got, []byte("\n")), content) {
		t.Errorf("the lines do not give the original bytes")
	}
}

func FuzzReadBack(f *testing.F) {
	f.Add([]byte("a\nb\r\n😀"), "toolu_1", 3, 2)
	f.Add([]byte("\xff\n\n"), "h_\x00/../x", 1, 1)
	f.Fuzz(func(t *testing.T, content []byte, id string, limit, step int) {
		if id == "" {
			return
		}
		store := newFakeStore(StoreConfig{})
		o := NewOffloader(store, Config{Always: []string{"t"}, InlineChars: 1})
		res := tools.NewOutput(tools.OutputLimits{Memory: 8, Dir: t.TempDir()})
		defer res.Close()
		if _, err := res.Write(content); err != nil {
			t.Fatal(err)
		}
		short, err := o.Result(t.Context(), tools.Call{ID: id, Session: "s", Tool: "t"}, tools.Definition{}, &tools.Result{Output: res})
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(store, ReaderConfig{MaxChars: 50})
		for _, name := range []string{short.Artifact.ID, id} {
			if _, err := r.Record(t.Context(), "s", name); err != nil {
				t.Fatalf("the artifact of call %q is not found as %q: %v", id, name, err)
			}
		}
		rec, c, err := r.Open(t.Context(), "s", id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size())); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("read back %q, %v, want %q", got, err, content)
		}
		if rec.Metadata["biz_id"] != id {
			t.Fatalf("biz_id is %q, want %q", rec.Metadata["biz_id"], id)
		}
		putArtifact(t, store, "s", "a", content)
		if id == "a" {
			return
		}
		checkPages(t, r, content, int64(max(limit, 1)))
		checkLines(t, r, content, int64(max(step%1000, 1)))
	})
}

func TestPageLimits(t *testing.T) {
	text := strings.Repeat("é", 40_000)
	r := stored(t, []byte(text))
	for _, row := range []struct{ offset, limit, chars, next int64 }{
		{0, 0, 15_000, 15_000},
		{0, 20_000, 15_000, 15_000},
		{15_000, 15_000, 15_000, 30_000},
		{30_000, 0, 10_000, 0},
		{39_999, 0, 1, 0},
		{7, 1, 1, 8},
	} {
		page, err := r.GetByID(t.Context(), "s", "a", row.offset, row.limit)
		if err != nil {
			t.Fatal(err)
		}
		if page.Chars != row.chars || page.NextOffset != row.next || page.Content != strings.Repeat("é", int(row.chars)) {
			t.Errorf("GetByID(%d, %d) has %d characters, next %d, want %d, %d", row.offset, row.limit, page.Chars, page.NextOffset, row.chars, row.next)
		}
	}
	if page, err := stored(t, bytes.Repeat([]byte("x"), 2*ReadChars)).Read(t.Context(), "s", "a", 1, 1<<62); err != nil || page.Chars != ReadChars || page.NextOffset != ReadChars+1 {
		t.Errorf("a page for a program has %d characters, next %d, %v; want %d", page.Chars, page.NextOffset, err, ReadChars)
	}
	for _, offset := range []int64{-1, 40_000, 1 << 62} {
		_, err := r.GetByID(t.Context(), "s", "a", offset, 0)
		wantCode(t, err, tools.CodeInvalidArguments, "valid offsets are 0 to 39999")
	}
	_, err := r.GetByID(t.Context(), "s", "a", 0, -1)
	wantCode(t, err, tools.CodeInvalidArguments, "negative")
}

func wantCode(t *testing.T, err error, code, text string) {
	t.Helper()
	if err == nil || tools.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("error is %q (%s), want one with code %s that contains %q", err, tools.CodeOf(err), code, text)
	}
}

func TestPageText(t *testing.T) {
	r := stored(t, []byte("0123456789"))
	for _, row := range []struct {
		offset, limit int64
		want          string
	}{
		{0, 0, "0123456789"},
		{0, 4, "Characters 0-3 of 10 (knowledge_id: a); the next page has offset=4:\n\n0123"},
		{4, 6, "Characters 4-9 of 10 (knowledge_id: a); this is the end:\n\n456789"},
	} {
		page, err := r.GetByID(t.Context(), "s", "a", row.offset, row.limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := page.Text(); got != row.want {
			t.Errorf("page %d, %d is\n%s\nwant\n%s", row.offset, row.limit, got, row.want)
		}
	}
}

// A newline ends its line, so the last line is not empty, and lines count as wc counts them.
func TestLinesFromTheEnd(t *testing.T) {
	r := stored(t, []byte("one\ntwo\nthree\n"))
	for _, row := range []struct {
		start, end int64
		want       string
	}{{-1, 0, "three"}, {-20, 0, "one\ntwo\nthree"}, {-20, 2, "one\ntwo"}, {-2, 0, "two\nthree"}, {-2, -2, "two"}, {2, -1, "two\nthree"}, {2, 0, "two\nthree\n"}} {
		lines, err := r.GetByLines(t.Context(), "s", "a", LinesQuery{StartLine: row.start, EndLine: row.end})
		if err != nil || lines.Content != row.want {
			t.Errorf("lines %d to %d: %+v, %v; want %q", row.start, row.end, lines, err, row.want)
		}
	}
	for text, want := range map[string]int64{"": 0, "a": 1, "a\n": 1, "a\n\n": 2, "a\nb": 2} {
		rec := Record{}
		if err := summarize(t.Context())(&rec, contentOf(t, []byte(text))); err != nil || rec.Lines != want {
			t.Errorf("%q has %d lines, %v; want %d", text, rec.Lines, err, want)
		}
	}
}

func TestLinesText(t *testing.T) {
	r := stored(t, []byte("one\ntwo\r\nthree\n\nfive\n"))
	for _, row := range []struct {
		start, end int64
		want       string
	}{
		{2, 6, "Lines 2-5 of 5 (knowledge_id: a):\n\ntwo\r\nthree\n\nfive\n"},
		{6, 6, "Lines 6-6 of 6 (knowledge_id: a):\n\n"},
		{1, 1, "Lines 1-1 of 5 (knowledge_id: a):\n\none"},
		{5, 99, "Lines 5-5 of 5 (knowledge_id: a):\n\nfive\n"},
		{1, 1 << 62, "Lines 1-5 of 5 (knowledge_id: a):\n\none\ntwo\r\nthree\n\nfive\n"},
	} {
		lines, err := r.GetByLines(t.Context(), "s", "a", LinesQuery{StartLine: row.start, EndLine: row.end})
		if err != nil {
			t.Fatal(err)
		}
		if got := lines.Text(); got != row.want {
			t.Errorf("lines %d-%d are %q, want %q", row.start, row.end, got, row.want)
		}
	}
	for _, row := range []struct {
		start, end int64
		text       string
	}{{0, 3, "valid lines are 1 to 6"}, {-1, 3, "valid values are 5 to 6"}, {1, -9, "end_line -9 is before start_line 1"}, {7, 9, "valid lines are 1 to 6"}, {4, 3, "valid values are 4 to 6"}} {
		_, err := r.GetByLines(t.Context(), "s", "a", LinesQuery{StartLine: row.start, EndLine: row.end})
		wantCode(t, err, tools.CodeInvalidArguments, row.text)
	}
}

func TestLinesThatAreTooMuch(t *testing.T) {
	long := strings.Repeat("x", 50_000)
	r := stored(t, []byte(strings.Repeat("1234567\n", 10_000)+long+"\nend"))
	lines, err := r.GetByLines(t.Context(), "s", "a", LinesQuery{StartLine: 1, EndLine: 10_002})
	if err != nil {
		t.Fatal(err)
	}
	if lines.EndLine != 15_000/8-1 && lines.EndLine != 15_000/8 || !strings.Contains(lines.Text(), fmt.Sprintf("continue with cursor=%q", lines.NextCursor)) {
		t.Errorf("lines end at %d and go on at %q, want about 1875", lines.EndLine, lines.NextCursor)
	}
	next, err := r.GetByLines(t.Context(), "s", "a", LinesQuery{Cursor: lines.NextCursor})
	if err != nil || next.StartLine != lines.EndLine+1 || !strings.HasPrefix(next.Content, "1234567\n1234567\n") {
		t.Errorf("the lines continue at %+v, %v", next, err)
	}
	var got strings.Builder
	for q := (LinesQuery{StartLine: 10_001, EndLine: 10_002}); ; q = (LinesQuery{Cursor: lines.NextCursor}) {
		if lines, err = r.GetByLines(t.Context(), "s", "a", q); err != nil || len(lines.Content) > 15_000 {
			t.Fatalf("%+v: %d bytes, %v", q, len(lines.Content), err)
		}
		got.WriteString(lines.Content)
		if lines.NextCursor == "" {
			break
		}
	}
	if got.String() != long+"\nend" || lines.EndLine != 10_002 {
		t.Errorf("a long line gives %d bytes and ends in line %d", got.Len(), lines.EndLine)
	}
	for _, bad := range []string{"at9999999+1", "at-1+1", "12", "at1+1 "} {
		_, err = r.GetByLines(t.Context(), "s", "a", LinesQuery{Cursor: bad})
		wantCode(t, err, tools.CodeInvalidArguments, "cursor")
	}
}

// countingContent counts the blocks that are read.
type countingContent struct {
	Content
	reads int
}

func (c *countingContent) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	return c.Content.ReadAt(p, off)
}

func TestLinesFromTheMiddleReadFewBlocks(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("a line of some thirty bytes..\n"), 1_000_000)
	r := stored(t, content)
	rec, c, err := r.Open(t.Context(), "s", "a")
	if err != nil {
		t.Fatal(err)
	}
	for start := int64(1); start < 1_000_000; start += 12_345 {
		counting := &countingContent{Content: c}
		if _, err := readLines(t.Context(), rec, inBlocks(counting), LinesQuery{StartLine: start, EndLine: start + 19}, 40_000); err != nil {
			t.Fatal(err)
		}
		if counting.reads > 2 {
			t.Fatalf("20 lines from %d cost %d reads", start, counting.reads)
		}
	}
}

func TestReaderKeepsSessionsApart(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	hostile := "käse"
	putArtifact(t, store, "mine", "a", []byte("my secret"))
	putArtifact(t, store, hostile, "b", []byte("the other's"))
	r := NewReader(store, ReaderConfig{})
	for _, session := range []string{"other", "MINE", "", "*", "mine.a", hostile} {
		if page, err := r.GetByID(t.Context(), session, "a", 0, 0); err == nil {
			t.Errorf("session %q reads %q", session, page.Content)
		}
		if session == "" {
			continue
		}
		listing, err := r.Query(t.Context(), session, nil, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range listing.Artifacts {
			if a.ID == "a" {
				t.Errorf("session %q lists the artifact of mine", session)
			}
		}
	}
	if _, err := r.Query(t.Context(), "", nil, 0, 0); err == nil {
		t.Error("a query without a session lists something")
	}
	// A session that looks like the token of another session is a different session.
	call := tools.Call{ID: "1", Session: tools.Token(hostile), Tool: ToolGet, Args: []byte(`{"artifact_id":"b"}`)}
	if res := runTool(t, r, call); !res.IsError || tools.CodeOf(res.Err) != tools.CodeNotFound {
		t.Errorf("a call of session %q reads %q", call.Session, res.ForLLM)
	}
	call.Session = hostile
	if res := runTool(t, r, call); res.IsError || res.ForLLM != "the other's" {
		t.Errorf("a call of session %q gets %q", call.Session, res.ForLLM)
	}
}

// leakyStore returns records of other sessions.
type leakyStore struct{ *fakeStore }

func (s leakyStore) Get(ctx context.Context, _, id string) (Record, error) {
	return s.fakeStore.Get(ctx, "mine", id)
}

func (s leakyStore) List(ctx context.Context, _ string) iter.Seq2[Record, error] {
	return s.fakeStore.List(ctx, "")
}

func TestReaderDoesNotTrustTheStore(t *testing.T) {
	store := leakyStore{newFakeStore(StoreConfig{})}
	putArtifact(t, store, "mine", "a", []byte("my secret"))
	r := NewReader(store, ReaderConfig{})
	_, err := r.GetByID(t.Context(), "other", "a", 0, 0)
	wantCode(t, err, tools.CodeNotFound, "no artifact")
	if listing, err := r.Query(t.Context(), "other", nil, 0, 0); err != nil || listing.Count != 0 {
		t.Errorf("another session lists %+v, %v", listing, err)
	}
}

func runTool(t *testing.T, r *Reader, call tools.Call) *tools.Result {
	t.Helper()
	for _, tool := range r.Tools() {
		if tool.Definition().Name == call.Tool {
			return tool.Execute(t.Context(), call)
		}
	}
	t.Fatalf("there is no tool %q", call.Tool)
	return nil
}

func TestReadErrors(t *testing.T) {
	r := stored(t, []byte("x"))
	_, err := r.GetByID(t.Context(), "s", "nothing", 0, 0)
	wantCode(t, err, tools.CodeNotFound, "query_artifacts")
	_, err = r.GetByID(t.Context(), "s", "", 0, 0)
	wantCode(t, err, tools.CodeInvalidArguments, "artifact_id")
	_, err = r.GetByLines(t.Context(), "s", strings.Repeat("../", 500), LinesQuery{StartLine: 1, EndLine: 2})
	wantCode(t, err, tools.CodeNotFound, "no artifact")

	now := time.Now()
	store := newFakeStore(StoreConfig{TTL: time.Hour, Now: func() time.Time { return now }})
	putArtifact(t, store, "s", "old", []byte("x"))
	now = now.Add(2 * time.Hour)
	_, err = NewReader(store, ReaderConfig{}).GetByID(t.Context(), "s", "old", 0, 0)
	wantCode(t, err, tools.CodeExpired, "run the tool again")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Grep(ctx, "s", "a", GrepQuery{Pattern: "x"}); err == nil {
		t.Error("a grep whose context has ended succeeds")
	}
}

// A byte that is not UTF-8 is shown as four characters; the answers stay bounded, and their
// parts give all bytes.
func TestAnswersWithEscapesAreBounded(t *testing.T) {
	const most = PageChars + noteReserve
	content := append([]byte(strings.Repeat("plain text\n", 1_000)), bytes.Repeat(append(bytes.Repeat([]byte("\xe9\xff"), 2_000), '\n'), 20)...)
	r := stored(t, content)
	checkPages(t, r, content, PageChars)
	page := must(r.GetByID(t.Context(), "s", "a", 11_000, 0))
	lines := must(r.GetByLines(t.Context(), "s", "a", LinesQuery{StartLine: 1_001}))
	grep := must(r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "$", Cursor: "at11000+0"}))
	for name, text := range map[string]string{"page": page.Text(), "lines": lines.Text(), "grep": grep.Text()} {
		if n := len(text); n > most || n < PageChars/2 {
			t.Errorf("the %s has %d characters", name, n)
		}
	}
	if page.NextOffset == 0 || lines.NextCursor == "" {
		t.Errorf("no continuation: %d, %q", page.NextOffset, lines.NextCursor)
	}
}
