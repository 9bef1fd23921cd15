package chat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOffloadHistoryThreshold(t *testing.T) {
	jsonOf := func(n int) string { // an array whose compact JSON has n characters
		return `[ {"type": "text", "text": "` + strings.Repeat("x", n-len(`[{"type":"text","text":""}]`)) + `"} ]`
	}
	for _, test := range []struct {
		name, content string
		freed         int // 0: stays
	}{
		{"empty", `""`, 0},
		{"99", `"` + strings.Repeat("x", 99) + `"`, 0},
		{"100", `"` + strings.Repeat("x", 100) + `"`, 100},
		{"101", `"` + strings.Repeat("x", 101) + `"`, 101},
		{"49 emoji", `"` + strings.Repeat("😀", 49) + `"`, 0},
		{"50 emoji", `"` + strings.Repeat("😀", 50) + `"`, 100},
		{"50 emoji as escapes", `"` + strings.Repeat(`\ud83d\ude00`, 50) + `"`, 100},
		{"99 Chinese characters", `"` + strings.Repeat("中", 99) + `"`, 0},
		{"100 Chinese characters", `"` + strings.Repeat("中", 100) + `"`, 100},
		{"99 line feeds", `"` + strings.Repeat(`\n`, 99) + `"`, 0},
		{"array of 99", jsonOf(99), 0},
		{"array of 100", jsonOf(100), 100},
		{"empty array", `[]`, 0},
		{"null", `null`, 0},
		{"an object", `{"a":"` + strings.Repeat("x", 100) + `"}`, 108},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := history(t, `[`+user(`{"type":"tool_result","tool_use_id":"a","content":`+test.content+`}`)+`]`)
			w := newMemory()
			res, err := OffloadHistoryTo(t.Context(), in, "out", Options{}, w)
			if err != nil {
				t.Fatal(err)
			}
			if test.freed == 0 {
				if res.Messages[0] != in[0] || res.OffloadedCount != 0 || res.FreedChars != 0 || len(w.order) != 0 {
					t.Errorf("offloaded: %+v", res)
				}
				return
			}
			if res.OffloadedCount != 1 || res.FreedChars != test.freed || len(res.Files) != 1 || res.Files[0] != "out/tool-result-a.md" {
				t.Errorf("got %+v, want %d freed", res, test.freed)
			}
			if want := user(result("a", "[Content offloaded to: ./tool-result-a.md]")); res.Messages[0].String() != want {
				t.Errorf("message %s, want %s", res.Messages[0], want)
			}
		})
	}
}

func TestOffloadHistoryMixed(t *testing.T) {
	long := strings.Repeat("long ", 40)
	in := history(t, `[
	 {"role":"user","content":"a question of more than 100 characters `+long+`"},
	 {"role":"assistant","content":[{"type":"text","text":"`+long+`"},{"type":"tool_use","id":"a","name":"ls","input":{"p":"`+long+`"}}]},
	 {"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"`+long+`","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"b","content":"short"}]},
	 {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"`+long+`"},{"type":"image","source":{}},{"e":[]}]}]},
	 {"role":"user"},{"role":"user","content":null},{"content":[1,"x",null,[],{"type":7}]}]`)
	before := fmt.Sprint(in)
	dir := filepath.Join(t.TempDir(), "deep", "er")
	res, err := OffloadHistory(t.Context(), in, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(in) != before {
		t.Error("the input changed")
	}
	for i, changed := range []bool{false, false, true, true, false, false, false} {
		if (res.Messages[i] != in[i]) != changed {
			t.Errorf("message %d: changed is %v: %s", i, !changed, res.Messages[i])
		}
	}
	want := `{"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"[Content offloaded to: ./tool-result-a.md]","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"b","content":"short"}]}`
	if got := res.Messages[2].String(); got != want {
		t.Errorf("message 2\n got %s\nwant %s", got, want)
	}
	want = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"[Content offloaded to: ./tool-result-c.md]"}]}`
	if got := res.Messages[3].String(); got != want {
		t.Errorf("message 3\n got %s\nwant %s", got, want)
	}
	array := `[{"type":"text","text":"` + long + `"},{"type":"image","source":{}},{"e":[]}]`
	if want := len(long) + len(array); res.OffloadedCount != 2 || res.FreedChars != want {
		t.Errorf("count %d, freed %d, want 2 and %d", res.OffloadedCount, res.FreedChars, want)
	}
	if got, want := strings.Join(res.Files, " "), dir+"/tool-result-a.md "+dir+"/tool-result-c.md"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	wantFile(t, res.Files[0], long)
	wantFile(t, res.Files[1], "[\n  {\n    \"type\": \"text\",\n    \"text\": \""+long+"\"\n  },\n  {\n    \"type\": \"image\",\n    \"source\": {}\n  },\n  {\n    \"e\": []\n  }\n]")
	wantFiles(t, dir, "tool-result-a.md", "tool-result-c.md")
}

func TestOffloadHistoryOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	for _, in := range []string{`[]`, `[{"role":"user","content":[]},{"role":"user","content":[{"type":"text","text":"` + strings.Repeat("x", 200) + `"}]}]`} {
		messages := history(t, in)
		res, err := OffloadHistory(t.Context(), messages, dir, Options{})
		if err != nil || len(res.Messages) != len(messages) || res.Messages == nil || res.Files == nil ||
			res.OffloadedCount != 0 || res.FreedChars != 0 || len(res.Files) != 0 {
			t.Errorf("%.30s gives %+v, %v", in, res, err)
		}
	}
}

// Regression: suffix collisions lose data.
func TestSuffixesCollideWithNoID(t *testing.T) {
	for _, test := range []struct{ ids, want string }{
		{"a a a", "a a-1 a-2"},
		{"a a a-1", "a a-2 a-1"},
		{"a-1 a a", "a-1 a a-2"},
		{"a a-1 a-1 a", "a a-1 a-1-1 a-2"},
		{"a a b a-1 a-2 b", "a a-3 b a-1 a-2 b-1"},
		{" ", "unknown unknown-1"}, // two empty ids
	} {
		var blocks []string
		for i, id := range strings.Split(test.ids, " ") {
			blocks = append(blocks, result(id, fmt.Sprintf("%d %s", i, strings.Repeat("x", 100))))
		}
		w := newMemory()
		res, err := OffloadHistoryTo(t.Context(), history(t, `[`+user(blocks...)+`]`), "d", Options{}, w)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range strings.Split(test.want, " ") {
			path := "d/tool-result-" + want + ".md"
			if res.Files[i] != path || !strings.HasPrefix(w.files[path], fmt.Sprint(i, " ")) {
				t.Errorf("%q: result %d went to %s (%.10s), want %s", test.ids, i, res.Files[i], w.files[res.Files[i]], path)
			}
			if !strings.Contains(res.Messages[0].String(), `"[Content offloaded to: ./tool-result-`+want+`.md]"`) {
				t.Errorf("%q: no reference to %s in %s", test.ids, want, res.Messages[0])
			}
		}
	}
}

// A suffixed name also avoids the id of a short result, which stays in the history.
func TestSuffixesAvoidIDsThatStay(t *testing.T) {
	x := strings.Repeat("x", 100)
	res, err := OffloadHistoryTo(t.Context(), history(t, `[`+user(result("a", x), result("a", x), result("a-1", "short"))+`]`), "d", Options{}, newMemory())
	if err != nil || strings.Join(res.Files, " ") != "d/tool-result-a.md d/tool-result-a-2.md" {
		t.Errorf("files %q, %v", res.Files, err)
	}
}

// Regression: offloading twice overwrites the original with a reference.
func TestOffloadingAHistoryTwiceKeepsTheOriginals(t *testing.T) {
	dir := t.TempDir()
	id := strings.Repeat("i", 150) // the reference is longer than the threshold
	long := strings.Repeat("original ", 20)
	in := history(t, `[`+user(result(id, long))+`]`)
	first, err := OffloadHistory(t.Context(), in, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := OffloadHistory(t.Context(), first.Messages, dir, Options{MinChars: new(0)})
	if err != nil || second.OffloadedCount != 0 || second.Messages[0] != first.Messages[0] {
		t.Errorf("the second run gives %+v, %v", second, err)
	}
	// The history continues with the same id.
	grown := append(second.Messages, message(t, user(result(id, "another "+long))))
	third, err := OffloadHistory(t.Context(), grown, dir, Options{})
	if err != nil || third.OffloadedCount != 1 || third.Messages[0] != first.Messages[0] {
		t.Errorf("the third run gives %+v, %v", third, err)
	}
	wantFile(t, first.Files[0], long)
	wantFile(t, third.Files[0], "another "+long)
	wantFiles(t, dir, "tool-result-"+id+"-1.md", "tool-result-"+id+".md")
}

// References show which names are used, even if the files are in another directory.
func TestNamesInReferencesAreNotReused(t *testing.T) {
	x := strings.Repeat("x", 100)
	in := user(result("a", "[Content offloaded to: ./tool-result-a.md]"), result("b", "[Tool result offloaded to file: /old/s/b-1.md]"),
		result("a", x), result("b", x), result("b", x))
	res, err := OffloadHistoryTo(t.Context(), history(t, `[`+in+`]`), "d", Options{}, newMemory())
	if err != nil || strings.Join(res.Files, " ") != "d/tool-result-a-1.md d/tool-result-b.md d/tool-result-b-2.md" {
		t.Errorf("files %q, %v", res.Files, err)
	}
}

// A reference of OffloadMessage also counts as a reference.
func TestAHistoryKeepsMessageReferences(t *testing.T) {
	dir := t.TempDir()
	session := strings.Repeat("s", 120)
	light, err := OffloadResults(t.Context(), message(t, user(result("a", "x"))), session, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	res, err := OffloadHistory(t.Context(), []Message{light.Message}, dir, Options{})
	if err != nil || res.OffloadedCount != 0 || res.Messages[0] != light.Message {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestRunsInOneDirectoryKeepEachOthersFiles(t *testing.T) {
	dir := t.TempDir()
	offload := func(text string) HistoryResult {
		t.Helper()
		res, err := OffloadHistory(t.Context(), history(t, `[`+user(result("a", text), result("a", text+"!"))+`]`), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	one, two := strings.Repeat("1", 100), strings.Repeat("2", 100)
	first, second, again := offload(one), offload(two), offload(one)
	for i, want := range []string{one, one + "!"} {
		wantFile(t, first.Files[i], want)
		if again.Files[i] != first.Files[i] {
			t.Errorf("the same history went to %q and to %q", first.Files[i], again.Files[i])
		}
	}
	for i, want := range []string{two, two + "!"} {
		wantFile(t, second.Files[i], want)
	}
	wantFiles(t, dir, "tool-result-a-1.md", "tool-result-a-2.md", "tool-result-a-3.md", "tool-result-a.md")
}

func TestConcurrentRunsKeepEachOthersFiles(t *testing.T) {
	dir := t.TempDir()
	const runs = 8
	results := make([]HistoryResult, runs)
	content := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", 100)) }
	var wg sync.WaitGroup
	for i := range runs {
		in := history(t, `[`+user(result("a", content(i)))+`]`)
		wg.Go(func() {
			res, err := OffloadHistory(t.Context(), in, dir, Options{})
			if err != nil {
				t.Error(err)
			}
			results[i] = res
		})
	}
	wg.Wait()
	for i, res := range results {
		if len(res.Files) != 1 {
			t.Fatalf("run %d wrote %q", i, res.Files)
		}
		wantFile(t, res.Files[0], content(i))
	}
}

// Regression: is_error dropped.
func TestErrorFlagIsKept(t *testing.T) {
	in := `{"role":"user","content":[{"is_error":true,"type":"tool_result","tool_use_id":"a","content":"` + strings.Repeat("x", 100) + `"}]}`
	res, err := OffloadHistoryTo(t.Context(), history(t, `[`+in+`]`), "d", Options{}, newMemory())
	if err != nil || !strings.Contains(res.Messages[0].String(), `{"is_error":true,"type":"tool_result"`) {
		t.Errorf("got %+v, %v", res, err)
	}
}

// Regression: an image block makes a sum NaN.
func TestImageBlocksKeepTheRatioANumber(t *testing.T) {
	in := history(t, `[`+user(
		`{"type":"image","source":{"type":"base64","data":"AAAA"}}`, // 57 characters
		`{"type":"text"}`, `{"type":"tool_use"}`, `{"type":"tool_result"}`, `{}`, `null`, `7`, `[]`, // 15+19+0+2+4+1+2
		result("a", strings.Repeat("x", 100)),
	)+`]`) // 200 in all
	for _, test := range []struct {
		ratio float64
		want  int
	}{{0.5, 1}, {0.501, 0}} {
		res, err := OffloadHistoryTo(t.Context(), in, "d", Options{MinRatio: &test.ratio}, newMemory())
		if err != nil || res.OffloadedCount != test.want {
			t.Errorf("ratio %v: %+v, %v; want %d offloaded", test.ratio, res, err, test.want)
		}
	}
}

func TestRatioGuard(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	text := func(n int) string { return `{"type":"text","text":"` + x(n) + `"}` }
	for _, test := range []struct {
		name    string
		history string
		ratio   float64
		want    int
	}{
		{"off", user(text(10_000), result("a", x(100))), 0, 1},
		{"exactly", user(text(400), result("a", x(100))), 0.2, 1},
		{"below", user(text(401), result("a", x(100))), 0.2, 0},
		{"above", user(text(399), result("a", x(100))), 0.2, 1},
		{"a third", user(text(200), result("a", x(100))), 1.0 / 3, 1},
		{"seven tenths", user(text(90), result("a", x(210))), 0.7, 1},
		{"seven hundredths", user(text(9300), result("a", x(700))), 0.07, 1}, // 0.07*10000 > 700
		{"all", user(result("a", x(100))), 1, 1},
		{"a short result counts in the total only", user(result("a", x(100)), result("b", x(1))), 1, 0},
		{"a tool_use counts by its input", user(`{"type":"tool_use","id":"`+x(500)+`","input":{"a":`+` "`+x(92)+`"}}`, result("a", x(100))), 0.5, 1},
		{"a string message counts", `{"role":"user","content":"` + x(101) + `"},` + user(result("a", x(100))), 0.5, 0},
		{"emoji count twice", user(text(100), result("a", strings.Repeat("😀", 50))), 0.5, 1},
		{"an array counts by its JSON", user(text(100), `{"type":"tool_result","tool_use_id":"a","content":[ "`+x(96)+`" ]}`), 0.5, 1},
		{"references are not offloadable", user(result("a", "[Content offloaded to: ./tool-result-"+x(100)+".md]")), 0.1, 0},
		{"nothing", "", 0.5, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := history(t, `[`+test.history+`]`)
			w := newMemory()
			res, err := OffloadHistoryTo(t.Context(), in, "d", Options{MinRatio: &test.ratio}, w)
			if err != nil || res.OffloadedCount != test.want || len(w.files) != test.want || len(res.Messages) != len(in) {
				t.Errorf("got %+v, %v; want %d offloaded", res, err, test.want)
			}
		})
	}
}

func TestOffloadHistoryReportsEachFailure(t *testing.T) {
	x := strings.Repeat("x", 100)
	in := history(t, `[`+user(result("a", x))+`,`+user(result("a", x+"2"), result("b", x))+`]`)
	for failAt := 1; failAt <= 3; failAt++ {
		for _, late := range []bool{false, true} {
			w := &memory{files: map[string]string{}, failAt: failAt, late: late}
			res, err := OffloadHistoryTo(t.Context(), in, "d", Options{}, w)
			if !errors.Is(err, errDisk) || res.Messages != nil {
				t.Errorf("failure at %d: %+v, %v", failAt, res, err)
			}
			w.failAt = 0 // healed
			res, err = OffloadHistoryTo(t.Context(), in, "d", Options{}, w)
			if err != nil || strings.Join(res.Files, " ") != "d/tool-result-a.md d/tool-result-a-1.md d/tool-result-b.md" {
				t.Errorf("running again: %+v, %v", res, err)
			}
		}
	}
}

// refusing is a FileCreator to which every file exists.
type refusing struct{}

func (refusing) CreateFile(context.Context, string, string) error { return ErrFileExists }

func TestSearchForANameEnds(t *testing.T) {
	in := history(t, `[`+user(result("a", strings.Repeat("x", 100)))+`]`)
	if _, err := OffloadHistoryTo(t.Context(), in, "d", Options{}, refusing{}); err == nil || !strings.Contains(err.Error(), "all exist") {
		t.Errorf("error %v", err)
	}
}
