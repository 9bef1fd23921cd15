package offload

import (
	"fmt"
	"strings"
	"testing"
)

// TestCompareJSON: a changed document names its records that are new, gone and changed, with the fields.
func TestCompareJSON(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ old, now, want string }{
		{`{"n":2,"items":[{"id":7,"s":"a","l":[1]},{"id":8,"s":"b"},{"id":9,"s":"c"}]}`, `{"n":3,"items":[{"id":9,"s":"d","t":1},{"id":7,"s":"x","l":[1,2]},{"id":10}]}`,
			`3 values are new, 1 are gone, and 3 records have changed; the first of them:` +
				"\n+ .items[id=9].t: 1\n+ .items[id=7].l[]: 2\n+ .items[id=10] {\"id\":10}\n- .items[id=8] {\"id\":8,\"s\":\"b\"}\n" +
				`~ .items[id=9].s: "c" -> "d"` + "\n" + `~ .items[id=7].s: "a" -> "x"` + "\n~ .n: 2 -> 3"},
		{`[{"name":"a","x":1,"y":2}]`, "[\n {\"name\": \"a\", \"x\": 2, \"y\": 3}\n]", "0 values are new, 0 are gone, and 1 records have changed; the first of them:\n~ [name=\"a\"].x: 1 -> 2, .y: 2 -> 3"},
		{"{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":3}\n", "0 values are new, 0 are gone, and 1 records have changed; the first of them:\n~ [1].a: 2 -> 3"},
		{`[1,2,2,3]`, `[2,1,3]`, "0 values are new, 1 are gone, and 0 records have changed; the first of them:\n- []: 2 (2 times)"},
		{`{"a":[1],"b":2}`, `{ "b": 2, "a": [1] }`, "it has the same values in another order or form."},
		{`{"a":1}`, `{"a":"</knowledge>"}`, "0 values are new, 0 are gone, and 1 records have changed; the first of them:\n~ .a: 1 -> \"&lt;/knowledge>\""},
		{`{"a":1}`, `[1`, ""},
	} {
		if got := compareJSON(row.old, row.now); got != row.want {
			t.Errorf("%s and %s:\n%s\nwant\n%s", row.old, row.now, got, row.want)
		}
	}
	deep := func(leaf string) string {
		return strings.Repeat(`[{"a":`, 4_000) + "[" + strings.Repeat("1,", 400_000) + leaf + "]" + strings.Repeat("}]", 4_000)
	}
	var many strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&many, `,{"id":%d}`, i)
	}
	for _, pair := range [][2]string{{deep("1"), deep("2")}, {"[" + many.String()[1:] + "]", `[{"id":"x"}` + many.String() + "]"}} {
		if got := compareJSON(pair[0], pair[1]); !strings.Contains(got, "the first of them:") || len(got) > 2_000 {
			t.Errorf("%.40q: %.200q", pair[0], got)
		}
	}
}
