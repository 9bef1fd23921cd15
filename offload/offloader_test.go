package offload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

var aCall = tools.Call{ID: "toolu_1", Session: "s", Tool: "fetch", Action: "get", AgentID: "agent", TaskID: "task"}

// offloadText passes a plain text to an Offloader with an empty store.
func offloadText(t *testing.T, cfg Config, call tools.Call, text string) (*tools.Result, *fakeStore) {
	t.Helper()
	store := newFakeStore(StoreConfig{})
	return mustOffload(t, NewOffloader(store, cfg), call, tools.NewToolResult(text)), store
}

func mustOffload(t *testing.T, o *Offloader, call tools.Call, res *tools.Result) *tools.Result {
	t.Helper()
	before := *res
	short, err := o.Result(t.Context(), call, tools.Definition{}, res)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(*res) {
		t.Errorf("Result changed its argument from %v to %v", before, *res)
	}
	return short
}

// storedText returns the content of an artifact.
func storedText(t *testing.T, store Store, session, id string) string {
	t.Helper()
	_, c, err := NewReader(store, ReaderConfig{}).Open(t.Context(), session, id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDecisionOrder(t *testing.T) {
	yes, no := true, false
	small, big := "small", strings.Repeat("x", 20_001) // 8,001 tokens
	for _, row := range []struct {
		name      string
		cfg       Config
		offload   *bool
		noOffload bool
		text      string
		want      bool
	}{
		{name: "at the threshold", text: big[:20_000], want: false},
		{name: "above the threshold", text: big, want: true},
		{name: "threshold of the configuration", cfg: Config{Threshold: 1}, text: small, want: true},
		{name: "asked for", text: small, offload: &yes, want: true},
		{name: "forbidden", text: big, offload: &no, want: false},
		{name: "a listed tool", cfg: Config{Always: []string{"fetch"}}, text: small, want: true},
		{name: "a listed action", cfg: Config{Always: []string{"fetch:get"}}, text: small, want: true},
		{name: "another action", cfg: Config{Always: []string{"fetch:put"}}, text: small, want: false},
		{name: "the list comes before the call", cfg: Config{Always: []string{"fetch"}}, offload: &no, text: small, want: true},
		{name: "disabled", cfg: Config{Disabled: true, Always: []string{"fetch"}}, offload: &yes, text: big, want: false},
		{name: "exempt", cfg: Config{Always: []string{"fetch"}}, offload: &yes, noOffload: true, text: big, want: false},
		{name: "empty", text: "", want: false},
		{name: "empty and asked for", text: "", offload: &yes, want: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			call := aCall
			call.Offload = row.offload
			store := newFakeStore(StoreConfig{})
			short, err := NewOffloader(store, row.cfg).Result(t.Context(), call, tools.Definition{NoOffload: row.noOffload}, tools.NewToolResult(row.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := short.Artifact != nil; got != row.want {
				t.Errorf("offloaded is %v, want %v", got, row.want)
			}
			if short.ForLLM != row.text { // all are under 40,000 characters
				t.Errorf("the model gets %.100q, want the text", short.ForLLM)
			}
			if row.want && storedText(t, store, "s", "toolu_1") != row.text {
				t.Error("the artifact is not the text")
			}
		})
	}
}

func TestInlineBoundary(t *testing.T) {
	for _, row := range []struct {
		chars  int
		inline bool
	}{{39_999, true}, {40_000, false}} {
		for _, r := range []string{"x", "é", "漢", "😀"} {
			text := strings.Repeat(r, row.chars)
			short, _ := offloadText(t, Config{}, aCall, text)
			if short.Artifact == nil || short.Artifact.Inline != row.inline || short.Artifact.Chars != int64(row.chars) {
				t.Fatalf("%d times %s: the artifact is %+v, want inline %v", row.chars, r, short.Artifact, row.inline)
			}
			if got := short.ForLLM == text; got != row.inline {
				t.Errorf("%d times %s: shown whole is %v, want %v", row.chars, r, got, row.inline)
			}
		}
	}
}

// JSON and tables are shown in full up to half of the length, because jq and SQL answer
// questions about them; a text of the same length is.
func TestInlineBoundaryOfTables(t *testing.T) {
	t.Parallel()
	rows := func(row string, length int) string { return strings.Repeat(row, length/len(row)) }
	for name, c := range map[string]struct {
		head, row, tail string
		limit           int
	}{
		"JSON":   {"[", `{"name": "a b c", "size": 1234567890},`, "0]", 20_000},
		"NDJSON": {"", `{"name": "a b c", "size": 1234567890}` + "\n", "", 20_000},
		"CSV":    {"name,size\n", "a b c,1234567890\n", "", 20_000},
		"table":  {"NAME    SIZE\n", "a-b-c   12345678\n", "", 20_000},
		"text":   {"", "a b c is 12345678\n", "", 40_000},
	} {
		for short, length := range map[bool]int{true: c.limit - 200, false: c.limit + 200} {
			text := c.head + rows(c.row, length) + c.tail
			res, _ := offloadText(t, Config{Threshold: 1}, aCall, text)
			if full := res.ForLLM == text; full != short || res.Artifact == nil {
				t.Errorf("%s of %d characters: shown in full %v, artifact %v", name, len(text), full, res.Artifact)
			}
		}
	}
}

func TestRecordOfAnArtifact(t *testing.T) {
	text := strings.Repeat("a line\n", 10_000)
	_, store := offloadText(t, Config{}, aCall, text)
	rec, err := store.Get(t.Context(), "s", "toolu_1")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"context_type": "tool_result", "biz_id": "toolu_1", "agent_id": "agent", "task_id": "task",
		"session_id": "s", "tool_name": "fetch", "action_name": "get",
	} {
		if got := rec.Metadata[key]; got != want {
			t.Errorf("metadata %s is %q, want %q", key, got, want)
		}
	}
	if rec.Type != TypeText || rec.Size != 70_000 || rec.Chars != 70_000 || rec.Lines != 10_000 || rec.Tokens != 28_000 {
		t.Errorf("record is %+v", rec)
	}
}

func TestReferenceText(t *testing.T) {
	lines := make([]string, 3_000)
	for i := range lines {
		lines[i] = fmt.Sprintf("line number %06d", i)
	}
	short, _ := offloadText(t, Config{}, aCall, strings.Join(lines, "\n"))
	notice, frame, _ := strings.Cut(short.ForLLM, "\n")
	for _, name := range []string{ToolGet, ToolLines, ToolGrep, "'toolu_1'"} {
		if !strings.Contains(notice, name) {
			t.Errorf("the notice does not name %s: %s", name, notice)
		}
	}
	head, tail := strings.Join(lines[:31], "\n"), strings.Join(lines[3_000-31:], "\n")
	want := "<knowledge_list description='This is a list of knowledge artifacts'>\n" +
		"<knowledge id='toolu_1' type='TEXT' media_type='text/plain; charset=utf-8'>\n" +
		"tool: \"fetch\"\naction: \"get\"\nsize: 56999 characters, about 22800 tokens, 3000 lines\npreview:\n" +
		head + "\n[... 55822 characters not shown ...]\n" + tail +
		"\n</knowledge>\n</knowledge_list>"
	if frame != want {
		t.Errorf("frame is\n%s\nwant\n%s", frame, want)
	}
}

func TestPreviews(t *testing.T) {
	t.Parallel()
	objects := make([]string, 5_000)
	for i := range objects {
		objects[i] = fmt.Sprintf(`{"id":%d,"name":"n","tags":["a","b"]}`, i)
	}
	png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), bytes.Repeat([]byte{0, 1, 2, 0xff}, 20_000)...)
	for _, row := range []struct {
		name, text, typ string
		contains        []string
	}{
		{"one line of JSON", `{"items":[` + strings.Join(objects, ",") + `],"next":null}`, TypeJSON,
			[]string{ToolJQ, "JSON of the shape {items: [5000 elements, each: {id: number, name: string, tags: [2 elements, each: string]}], next: null}"}},
		{"JSON on lines", "[\n" + strings.Join(objects, ",\n") + "\n]", TypeJSON, []string{ToolJQ, "JSON of the shape [5000 elements, each: {id: number, name: string, tags: [2 elements, each: string]}]\n" + `.[0]: {"id":0,"name"`}},
		{"picture", string(png), TypeBinary, []string{"size: 80016 bytes of image/png, which is not text"}},
		{"rows of JSON", strings.Repeat(`{"id":1,"tags":["a"]}`+"\n", 60_000), TypeText, []string{ToolJQ, "application/x-ndjson", "60000 rows of JSON, each of the shape {id: number"}},
		{"text in one line", strings.Repeat("word ", 10_000), TypeText, []string{strings.Repeat("word ", 120) + "\n[... 48800 characters not shown ...]\n" + strings.Repeat("word ", 120)}},
		{"text with NULs", strings.Repeat("./a file\x00", 8_000), TypeText, []string{"./a file\x00./a file\x00"}},
		{"UTF-16", strings.Repeat("t\x00e\x00x\x00", 20_000), TypeBinary, []string{"which is not text"}},
		{"latin-1", strings.Repeat("caf\xe9 au lait\n", 5_000), TypeText, []string{"café au lait\ncafé", "text/plain; charset=windows-1252", "65000 characters, about 26000 tokens, 5000 lines", "The bytes are windows-1252"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			short, store := offloadText(t, Config{}, aCall, row.text)
			if short.Artifact == nil || short.Artifact.Type != row.typ || short.Artifact.Inline {
				t.Fatalf("artifact is %+v, want type %s", short.Artifact, row.typ)
			}
			for _, want := range row.contains {
				if !strings.Contains(short.ForLLM, want) {
					t.Errorf("the reference does not contain %q:\n%s", want, short.ForLLM)
				}
			}
			if len(short.ForLLM) > 4_000 || !utf8.ValidString(short.ForLLM) {
				t.Errorf("the reference has %d bytes", len(short.ForLLM))
			}
			if storedText(t, store, "s", "toolu_1") != row.text {
				t.Error("the stored bytes are not the original ones")
			}
		})
	}
}

// JSON would change text that is not valid UTF-8, so even short text is stored.
func TestBytesThatJSONCannotCarryAreStored(t *testing.T) {
	short, store := offloadText(t, Config{}, aCall, "caf\xe9")
	if short.Artifact == nil || short.Artifact.Inline || storedText(t, store, "s", "toolu_1") != "caf\xe9" {
		t.Errorf("artifact is %+v", short.Artifact)
	}
	short, _ = offloadText(t, Config{Disabled: true}, aCall, "caf\xe9")
	if short.ForLLM != "café" {
		t.Errorf("without offloading the model gets %q", short.ForLLM)
	}
}

// The artifact of a command has exactly the bytes that it wrote; the exit code stands behind
// them, or behind the reference.
func TestArtifactHasNoExitCode(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"{\"a\":1}\n", "{\"a\":1}\n[Exit code: 0]"},
		{"[" + strings.Repeat("1,", 50_000) + "1]", "</knowledge_list>\n[Exit code: 0]"},
	} {
		out := tools.NewOutput(tools.OutputLimits{})
		if _, err := out.Write([]byte(row.text)); err != nil {
			t.Fatal(err)
		}
		out.Note("[Exit code: 0]")
		store := newFakeStore(StoreConfig{})
		short, err := NewOffloader(store, Config{Always: []string{"shell"}}).Result(t.Context(), tools.Call{ID: "toolu_1", Session: "s", Tool: "shell"}, tools.Definition{Name: "shell"}, &tools.Result{Output: out})
		if err != nil || short.Artifact == nil || short.Artifact.Type != TypeJSON || storedText(t, store, "s", "toolu_1") != row.text || !strings.HasSuffix(short.ForLLM, row.want) {
			t.Errorf("%.20q: %+v, %v", row.text, short, err)
		}
	}
}

// A model gets one sentence about the binary output of a command, with the exit code. The
// artifact has exactly the bytes of the command.
func TestBinaryOutput(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\xff"
	for _, row := range []struct {
		bytes, typ string
		want       []string
	}{
		{png, TypeBinary, []string{"stored as the artifact 'toolu_1': 11 bytes of image/png, which is not text", `"base64":true`, "</knowledge_list>\n[Exit code: 0]"}},
		{strings.Repeat(png, 200_000), TypeBinary, []string{"2200000 bytes of image/png", "\n[Exit code: 0]"}},
		{"caf\xe9\n", TypeText, []string{"café\n\n[this is the text of windows-1252", "artifact 'toolu_1' has the exact bytes]\n[Exit code: 0]"}},
		{"\xff\xfeh\x00\xe9\x00", TypeText, []string{"hé\n[this is the text of utf-16le", "artifact 'toolu_1' has the exact bytes]\n[Exit code: 0]"}},
		{"a \xff b\n", TypeText, []string{`a \xff b` + "\n\n[each \\xNN stands for a byte", "artifact 'toolu_1' has the exact bytes]\n[Exit code: 0]"}},
		{strings.Repeat("\x83\x65", 500), TypeBinary, []string{"1000 bytes of text/plain", "in an encoding other than UTF-8"}},
	} {
		out := tools.NewOutput(tools.OutputLimits{})
		if _, err := out.Write([]byte(row.bytes)); err != nil {
			t.Fatal(err)
		}
		out.Note("[Exit code: 0]")
		store := newFakeStore(StoreConfig{})
		res := &tools.Result{Output: out}
		short, err := NewOffloader(store, Config{}).Result(t.Context(), aCall, tools.Definition{Name: "shell"}, res)
		if err != nil {
			t.Fatal(err)
		}
		if short.Artifact == nil || short.Artifact.Type != row.typ || short.Artifact.Inline || storedText(t, store, "s", "toolu_1") != row.bytes {
			t.Errorf("%.20q: artifact %+v", row.bytes, short.Artifact)
		}
		for _, want := range row.want {
			if !strings.Contains(short.ForLLM, want) || strings.Contains(short.ForLLM, "\uFFFD") {
				t.Errorf("%.20q: want %q in %s", row.bytes, want, short.ForLLM)
			}
		}
		off, err := NewOffloader(nil, Config{Disabled: true}).Result(t.Context(), aCall, tools.Definition{Name: "shell"}, &tools.Result{Output: out})
		if err != nil || strings.Contains(off.ForLLM, "\uFFFD") || !strings.HasSuffix(off.ForLLM, "\n[Exit code: 0]") && len(row.bytes) < 1<<20 {
			t.Errorf("%.20q without a store: %v, %.300q", row.bytes, err, off.ForLLM)
		}
		_ = res.Close()
	}
}

// A short text stays inline, even if it contains a NUL.
func TestShortTextWithNULsIsShown(t *testing.T) {
	for _, text := range []string{"\x00", "a\x00b", "t\x00e\x00x\x00t\x00", strings.Repeat("./file\x00", 1_000)} {
		call := aCall
		call.Offload = new(true)
		short, store := offloadText(t, Config{}, call, text)
		if short.ForLLM != text || short.Artifact == nil || !short.Artifact.Inline {
			t.Errorf("%.20q: the model gets %.80q, the artifact is %+v", text, short.ForLLM, short.Artifact)
		}
		if storedText(t, store, "s", "toolu_1") != text {
			t.Errorf("%.20q: the stored bytes are not the original ones", text)
		}
	}
}

func TestOutputIsOffloaded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 50_000, 5 << 20} {
		out := tools.NewOutput(tools.OutputLimits{Memory: 1 << 10, Dir: t.TempDir(), Total: 4 << 20})
		text := strings.Repeat("0123456789abcde\n", size/16+1)
		if _, err := out.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		kept := text[:min(len(text), 4<<20)]
		store := newFakeStore(StoreConfig{})
		short := mustOffload(t, NewOffloader(store, Config{}), aCall, &tools.Result{Output: out})
		if short.Output != nil {
			t.Error("the published result has an output")
		}
		if size == 10 {
			if short.ForLLM != text || short.Artifact != nil {
				t.Errorf("a small output gives %+v", short)
			}
		} else if storedText(t, store, "s", "toolu_1") != kept || short.Artifact.Truncated != (len(kept) < len(text)) {
			t.Errorf("an output of %d bytes gives %+v", size, short.Artifact)
		} else if truncated := strings.Contains(short.ForLLM, "the rest is lost"); truncated != short.Artifact.Truncated {
			t.Errorf("the reference says that something is lost: %v", truncated)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswersSayWhatAnArtifactLacks: also those that count or find nothing, and the list.
func TestAnswersSayWhatAnArtifactLacks(t *testing.T) {
	out := tools.NewOutput(tools.OutputLimits{Total: 40_000})
	defer out.Close()
	if _, err := out.Write([]byte("a,b\n" + strings.Repeat("1,2\n", 20_000))); err != nil {
		t.Fatal(err)
	}
	store := newFakeStore(StoreConfig{})
	mustOffload(t, NewOffloader(store, Config{}), aCall, &tools.Result{Output: out})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	said := func(what string, answer textResult, err error) {
		t.Helper()
		if err != nil || !strings.Contains(answer.Text(), "The tool printed more than the worker keeps; the rest is lost.]") {
			t.Errorf("%s: %.300v, %v", what, answer, err)
		}
	}
	ctx, id := t.Context(), "toolu_1"
	page, err := r.GetByID(ctx, "s", id, 39_990, 0)
	said("the last page", page, err)
	lines, err := r.GetByLines(ctx, "s", id, LinesQuery{StartLine: -2})
	said("the last lines", lines, err)
	found, err := r.Grep(ctx, "s", id, GrepQuery{Pattern: "nothing"})
	said("grep", found, err)
	result, err := r.JQ(ctx, "s", id, JQQuery{Query: "length"})
	said("jq", result, err)
	rows, err := r.SQL(ctx, "s", SQLQuery{SQL: "SELECT count(*) FROM t1", Artifacts: []string{id}})
	said("SQL", rows, err)
	listing, err := r.Query(ctx, "s", nil, 0, 0)
	if err != nil || !strings.Contains(listing.Text(), "not complete") {
		t.Errorf("%v, %v", listing, err)
	}
	_, err = r.Expand(ctx, "s", nil, []byte(`{"content":{"$artifact":"toolu_1"}}`))
	wantCode(t, err, tools.CodeInvalidArguments, `the rest is lost. To pass on what there is, add "lines":"1-"`)
	if args, err := r.Expand(ctx, "s", nil, []byte(`{"content":{"$artifact":"toolu_1","lines":"1-"}}`)); err != nil || len(args) < 40_000 {
		t.Errorf("%.100s, %v", args, err)
	}
	for part, want := range map[string]string{
		`"lines":"-5"`: "the rest is lost.); count its lines from 1 on", `"jq":"length"`: "the rest is lost. To see what a query finds",
		`"base64":true`: `add "lines":"1-"`, `"base64":true,"jq":"length"`: "base64 passes all bytes", `"base64":true,"lines":"2-"`: "base64 passes all bytes",
	} {
		_, err = r.Expand(ctx, "s", nil, []byte(`{"content":{"$artifact":"toolu_1",`+part+`}}`))
		wantCode(t, err, tools.CodeInvalidArguments, want)
	}
	if args, err := r.Expand(ctx, "s", nil, []byte(`{"content":{"$artifact":"toolu_1","base64":true,"lines":"1-"}}`)); err != nil || !strings.Contains(string(args), "YSxiCjEsMgo") {
		t.Errorf("%.100s, %v", args, err)
	}
	if first, err := r.GetByID(ctx, "s", id, 0, 10); err != nil || first.Notes != nil {
		t.Errorf("the first page has the notes %q, %v", first.Notes, err)
	}
}

// A reused id gets a new artifact, and the same artifact for the same content.
func TestReusedIDsNeverCollide(t *testing.T) {
	for _, id := range []string{"unknown", strings.Repeat("x", 64), "käse", "h_x", strings.Repeat("é", 700), "", "../../etc"} {
		store := newFakeStore(StoreConfig{})
		o := NewOffloader(store, Config{Threshold: 1, InlineChars: 1})
		call := aCall
		call.ID = id
		ids := map[string]string{}
		for range 2 { // the second time is a retry
			for i := range 5 {
				text := fmt.Sprintf("result number %d", i)
				short := mustOffload(t, o, call, tools.NewToolResult(text))
				got := short.Artifact.ID
				if other, taken := ids[got]; taken && other != text {
					t.Fatalf("%q and %q have the same artifact %q", other, text, got)
				}
				ids[got] = text
				if !tools.IsToken(got) || !strings.Contains(short.ForLLM, "id='"+got+"'") || storedText(t, store, "s", got) != text {
					t.Errorf("id %q: artifact %q does not hold %q", id, got, text)
				}
			}
		}
		if len(ids) != 5 {
			t.Errorf("id %.20q: 5 results have %d artifacts", id, len(ids))
		}
	}
}

func TestEventFitsWhateverIsInIt(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const limit = 200 << 10
	long := func(s string, n int) string { return strings.Repeat(s, n/len(s)+1) }
	call := aCall
	call.ID, call.Session, call.ChatID = long("\x01", 16<<10), long("<", 8<<10), long("c", 1000)
	nasty := []string{"x", "\x00", "<", "😀", "\xff", "\u2028", "\n\"\\"}
	for _, s := range nasty {
		for _, n := range []int{100, 19_000, 39_000, 210_000} { // the last is above the limit
			if n > limit && len(s) > 1 {
				continue // it is cut as any other text
			}
			for i, res := range []*tools.Result{
				tools.NewToolResult(long(s, n)),
				tools.UserResult(long(s, n)),
				{ForLLM: "short", UserContent: tools.UserContent{ForUser: long(s, n)}},
				{ForLLM: long("y", 100_000), UserContent: tools.UserContent{ForUser: long(s, n)}},
				tools.Failure(tools.Errorf(tools.CodeTimeout, "%s", long(s, n))),
				tools.Failure(errors.New(long(s, n))),
			} {
				for _, cfg := range []Config{{MaxResult: limit}, {MaxResult: limit, Disabled: true}, {MaxResult: limit, InlineChars: 1 << 40}} {
					store := newFakeStore(StoreConfig{})
					o := NewOffloader(store, cfg)
					short := mustOffload(t, o, call, res)
					checkEvent(t, call, short, limit)
					checkEvent(t, call, o.Fallback(call, res, errors.New(long(s, n))), limit)
					if res.IsError && (!short.IsError || tools.CodeOf(short.Err) != tools.CodeOf(res.Err)) && short.Artifact != nil {
						t.Errorf("row %d: the error lost its code: %v", i, short.Err)
					}
					if cfg.Disabled || short.ForLLM == res.ForLLM {
						continue
					}
					if got := storedText(t, store, call.Session, short.Artifact.ID); got != res.ForLLM {
						t.Errorf("row %d of %d times %q: the text is lost", i, n, s)
					}
				}
			}
		}
	}
}

func checkEvent(t *testing.T, call tools.Call, short *tools.Result, limit int) {
	t.Helper()
	var event bytes.Buffer
	enc := json.NewEncoder(&event)
	enc.SetEscapeHTML(false) // as the bus encodes it
	if err := enc.Encode(tools.NewResultEvent(call, short)); err != nil {
		t.Fatal(err)
	}
	if event.Len() > limit {
		t.Errorf("the event has %d bytes, more than %d", event.Len(), limit)
	}
	if short.ForLLM == "" {
		t.Error("the model gets nothing")
	}
}

func TestLongTextForTheUser(t *testing.T) {
	text := strings.Repeat("für alle ", 30_000)
	store := newFakeStore(StoreConfig{})
	short := mustOffload(t, NewOffloader(store, Config{}), aCall, &tools.Result{ForLLM: "done", UserContent: tools.UserContent{ForUser: text}})
	if short.ForLLM != "done" || short.Artifact != nil {
		t.Errorf("the text for the model changed: %+v", short)
	}
	if !strings.HasPrefix(short.ForUser, text[:1000]) || !strings.Contains(short.ForUser, "all of it is in the artifact toolu_1_user]") {
		t.Errorf("the user gets ...%s", short.ForUser[len(short.ForUser)-200:])
	}
	if storedText(t, store, "s", "toolu_1_user") != text {
		t.Error("the text for the user is lost")
	}
	info, err := NewReader(store, ReaderConfig{}).OffloadInfo(t.Context(), "s", "", 0, 0)
	if err != nil || info.Count != 0 {
		t.Errorf("a text for the user is listed as a tool result: %+v, %v", info, err)
	}

	short = mustOffload(t, NewOffloader(store, Config{}), aCall, tools.UserResult(text))
	if !strings.Contains(short.ForUser, "all of it is in the artifact toolu_1]") || storedText(t, store, "s", "toolu_1") != text {
		t.Errorf("the user gets ...%s", short.ForUser[len(short.ForUser)-200:])
	}
}

func TestContentBlocks(t *testing.T) {
	t.Parallel()
	sound := func(n int) string { // see TestPicturesOfTools for pictures
		return `{"type":"audio","source":{"type":"base64","media_type":"audio/wav","data":"` + strings.Repeat("A", n) + `"}}`
	}
	text := func(n int) string { return `{"type":"text","text":"` + strings.Repeat("word ", n) + `"}` }
	for _, row := range []struct {
		name, blocks        string
		offloaded, inline   bool
		sounds              int
		contains, forbidden string
	}{
		{name: "small", blocks: "[" + text(3) + "," + sound(100) + "]", sounds: 1, contains: "[audio, audio/wav, "},
		{name: "a sound is no prose", blocks: "[" + text(3) + "," + sound(100_000) + "]", sounds: 1},
		{name: "long text, small sound", blocks: "[" + text(20_000) + ", " + sound(50_000) + "]", offloaded: true, sounds: 1, contains: "<knowledge id='toolu_1' type='JSON'"},
		{name: "middling text", blocks: "[" + text(6_000) + "," + sound(1_000) + "]", offloaded: true, inline: true, sounds: 1},
		{name: "huge sound", blocks: "[" + text(3) + "," + sound(900_000) + "]", offloaded: true, sounds: 0, contains: "Not shown, but in the artifact: [audio, audio/wav, 9"},
		{name: "no array", blocks: `{"a":1}`, sounds: 0, contains: `{"a":1}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			store := newFakeStore(StoreConfig{})
			short := mustOffload(t, NewOffloader(store, Config{}), aCall, &tools.Result{Blocks: json.RawMessage(row.blocks)})
			if got := short.Artifact != nil; got != row.offloaded {
				t.Fatalf("offloaded is %v, want %v", got, row.offloaded)
			}
			if row.offloaded && storedText(t, store, "s", "toolu_1") != row.blocks {
				t.Error("the artifact is not the blocks as they came")
			}
			if row.offloaded && short.Artifact.Inline != row.inline {
				t.Errorf("inline is %v, want %v", short.Artifact.Inline, row.inline)
			}
			if got := strings.Count(string(short.Blocks), `"type":"audio"`); got != row.sounds {
				t.Errorf("%d sounds are left, want %d", got, row.sounds)
			}
			if !strings.Contains(short.ForLLM, row.contains) {
				t.Errorf("the text %.1000s does not contain %q", short.ForLLM, row.contains)
			}
			checkEvent(t, aCall, short, 512<<10)
		})
	}
}

// failingStore fails to put, before or after it stored the artifact.
type failingStore struct {
	*fakeStore
	after bool
}

var errDisk = errors.New("no space left on device")

func (s failingStore) Put(ctx context.Context, rec Record, src io.Reader, f func(*Record, Content) error) (Record, error) {
	if s.after {
		if _, err := s.fakeStore.Put(ctx, rec, src, f); err != nil {
			return Record{}, err
		}
	}
	return Record{}, errDisk
}

func TestStoreFailure(t *testing.T) {
	text := "the beginning" + strings.Repeat("é ", 100_000) + "the end"
	for _, after := range []bool{false, true} {
		store := failingStore{newFakeStore(StoreConfig{}), after}
		o := NewOffloader(store, Config{})
		res := tools.UserResult(text)
		_, err := o.Result(t.Context(), aCall, tools.Definition{}, res)
		if !errors.Is(err, errDisk) {
			t.Fatalf("error is %v, want %v", err, errDisk)
		}
		last := o.Fallback(aCall, res, err)
		if !last.IsError || last.Artifact != nil || tools.CodeOf(last.Err) != tools.CodeOffloadFailed {
			t.Errorf("fallback is %+v", last)
		}
		for _, want := range []string{"could not be stored", "no space left", "the beginning", "the end"} {
			if !strings.Contains(last.ForLLM, want) {
				t.Errorf("the fallback does not contain %q", want)
			}
		}
		if n := utf8.RuneCountInString(last.ForLLM); n < 39_000 || n > 41_000 {
			t.Errorf("the fallback has %d characters", n)
		}
		// If the store works again, the retry uses the same artifact.
		short := mustOffload(t, NewOffloader(store.fakeStore, Config{}), aCall, res)
		if short.Artifact.ID != "toolu_1" {
			t.Errorf("the retry has the artifact %q", short.Artifact.ID)
		}
	}
	short := NewOffloader(failingStore{newFakeStore(StoreConfig{}), false}, Config{}).Fallback(aCall, tools.NewToolResult("short"), errDisk)
	if !strings.HasSuffix(short.ForLLM, "\n\nshort") {
		t.Errorf("the fallback of a short text is %q", short.ForLLM)
	}
}

func TestIncompleteOutputIsAnError(t *testing.T) {
	t.Parallel()
	out := tools.NewOutput(tools.OutputLimits{Memory: 10, Dir: t.TempDir() + "/missing"})
	if _, err := out.Write(bytes.Repeat([]byte("x"), 8)); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(bytes.Repeat([]byte("y"), 8)); err == nil {
		t.Fatal("the spill file could be written")
	}
	o := NewOffloader(newFakeStore(StoreConfig{}), Config{})
	res := &tools.Result{Output: out}
	_, err := o.Result(t.Context(), aCall, tools.Definition{}, res)
	if err == nil {
		t.Fatal("an incomplete output passes for the whole")
	}
	if last := o.Fallback(aCall, res, err); !strings.HasSuffix(last.ForLLM, "xxxxxxxx") {
		t.Errorf("the fallback is %q", last.ForLLM)
	}
}

func TestLogLine(t *testing.T) {
	var log bytes.Buffer
	call := aCall
	call.ID = "id\n{\"level\":\"forged\"}"
	offloadText(t, Config{Log: zerolog.New(&log)}, call, strings.Repeat("x", 50_000))
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("the log is not one line: %v: %s", err, log.Bytes())
	}
	if line["context_type"] != "tool_result" || line["biz_id"] != call.ID || line["session"] != "s" {
		t.Errorf("the log line is %s", log.Bytes())
	}
}

func decodeRaw(t *testing.T, body string) tools.RawEvent {
	t.Helper()
	e, err := tools.DecodeRaw([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRaw(t *testing.T) {
	o := NewOffloader(newFakeStore(StoreConfig{}), Config{})
	for body, want := range map[string]tools.Result{
		`{"for_llm":"text","is_error":true}`:              {ForLLM: "text", IsError: true},
		`{"for_llm":"","for_user":"u","silent":true}`:     {UserContent: tools.UserContent{ForUser: "u"}, Silent: true},
		`{"for_llm":"","for_user":"u","markdown":true}`:   {UserContent: tools.UserContent{ForUser: "u", Markdown: true}},
		`{"content":"a string \u00e9"}`:                   {ForLLM: "a string é"},
		`{"content":[{"type":"text","text":"x"}]}`:        {Blocks: json.RawMessage(`[{"type":"text","text":"x"}]`)},
		`{"content":null,"for_llm":"text","unknown":[1]}`: {ForLLM: "text"},
	} {
		got, err := o.Raw(t.Context(), decodeRaw(t, body))
		if err != nil || fmt.Sprint(*got) != fmt.Sprint(want) {
			t.Errorf("Raw(%s) is %+v, %v, want %+v", body, got, err, want)
		}
	}
	for body, text := range map[string]string{
		`{}`:                           "no text",
		`{"content":null}`:             "no text",
		`{"content":{"a":1}}`:          "want a string or an array",
		`{"content":12}`:               "want a string or an array",
		`{"content":"x","for_llm":""}`: "send one",
		`{"content":"x","object":"y"}`: "send one",
		`{"object":"y"}`:               "accepts no objects",
	} {
		_, err := o.Raw(t.Context(), decodeRaw(t, body))
		wantCode(t, err, tools.CodeInvalidCall, text)
	}
}

// If the store is full, the result is that of the tool, with the part that the store
// accepts, or with as much as fits into the result. It says what is missing, and the status names the store until it stores a result whole.
func TestFullStoreKeepsWhatFits(t *testing.T) {
	text := strings.Repeat("a line of the result\n", 50_000) // 1,050,000 bytes
	register := new(trouble.Register)
	ctx := register.With(t.Context())
	for quota, want := range map[int64]int64{600_000: 525_000, 300_000: 262_500, 70_000: 65_625, 10_000: 0} {
		o := NewOffloader(newFakeStore(StoreConfig{Quota: quota}), Config{})
		res := tools.NewToolResult(text)
		out, err := o.Result(ctx, aCall, tools.Definition{}, res)
		if list := register.List(); len(list) != 1 || list[0].Kind != trouble.StoreFull {
			t.Errorf("quota %d: reported are %v", quota, list)
		}
		if want == 0 {
			if !errors.Is(err, ErrQuota) {
				t.Fatalf("quota %d: %v", quota, err)
			}
			out = o.Fallback(aCall, res, err)
		} else if err != nil {
			t.Fatalf("quota %d: %v", quota, err)
		}
		if out.IsError || out.Err != nil {
			t.Errorf("quota %d: the result is an error: %v", quota, out.Err)
		}
		if !strings.Contains(out.ForLLM, "artifact store is full") || !strings.Contains(out.ForLLM, "a line of the result") {
			t.Errorf("quota %d: the result does not say what is missing:\n%.500s", quota, out.ForLLM)
		}
		if want == 0 {
			continue
		}
		if n := out.Artifact.Size; n > want || n < want-100 || !out.Artifact.Truncated {
			t.Errorf("quota %d: the artifact has %d bytes, want %d", quota, n, want)
		}
		if !strings.Contains(out.ForLLM, fmt.Sprintf("the first %d of 1050000 bytes", out.Artifact.Size)) {
			t.Errorf("quota %d: the reference does not name the part:\n%.500s", quota, out.ForLLM)
		}
	}
	if _, err := NewOffloader(newFakeStore(StoreConfig{}), Config{}).Result(ctx, aCall, tools.Definition{}, tools.NewToolResult(text)); err != nil || len(register.List()) > 0 {
		t.Errorf("with space, %v, reported are %v", err, register.List())
	}
}

// A result event may have few bytes, as on a server with a small max_payload.
func TestTinyLimit(t *testing.T) {
	o := NewOffloader(newFakeStore(StoreConfig{}), Config{MaxResult: 500})
	res := tools.NewToolResult("short")
	res.ForUser = strings.Repeat("long ", 1000)
	out, err := o.Result(t.Context(), tools.Call{ID: "a", Session: "s", Tool: "t"}, tools.Definition{}, res)
	if err != nil || !strings.Contains(out.ForUser, "all of it is in the artifact a_user") {
		t.Errorf("%v, %+v", err, out)
	}
}
