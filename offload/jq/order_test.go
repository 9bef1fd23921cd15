package jq

import (
	"strings"
	"testing"
	"time"
)

// TestKeyOrder: names are in jq's order, also if they first occur elsewhere in another order, and
// in the objects that a query writes.
func TestKeyOrder(t *testing.T) {
	doc := `{"z":1,"same":[{"b":1,"a":2},{"a":3,"b":4}],"rows":[{"name":"n","id":3,"nested":{"b":1,"a":{"c":2}}}],"meta":{"id":1,"name":null},"a":[],"name":"x","name":"y"}`
	for query, want := range map[string]string{
		".":                                              `{"z":1,"same":[{"b":1,"a":2},{"a":3,"b":4}],"rows":[{"name":"n","id":3,"nested":{"b":1,"a":{"c":2}}}],"meta":{"id":1,"name":null},"a":[],"name":"y"}`,
		"keys_unsorted":                                  `["z","same","rows","meta","a","name"]`,
		"to_entries|map(.key)":                           `["z","same","rows","meta","a","name"]`,
		"[.meta[]]":                                      `[1,null]`,
		".rows[0]|{nested,name}":                         `{"nested":{"b":1,"a":{"c":2}},"name":"n"}`,
		".meta|{name,id}":                                `{"name":null,"id":1}`,
		`.meta|{y:1}+{"x":.id}`:                          `{"y":1,"x":1}`,
		`.rows[0]+{new:2}|del(.nested)`:                  `{"name":"n","id":3,"new":2}`,
		".rows[0]|del(.id)":                              `{"name":"n","nested":{"b":1,"a":{"c":2}}}`,
		".rows[0].nested|tojson,@json":                   `"{\"b\":1,\"a\":{\"c\":2}}" "{\"b\":1,\"a\":{\"c\":2}}"`,
		".rows[0].nested|tostring":                       `"{\"b\":1,\"a\":{\"c\":2}}"`,
		`"text"|tostring`:                                `"text"`,
		`{("k"+"2"):1,"k1":2}|keys_unsorted`:             `["k1","k2"]`,
		"[.same[]|keys_unsorted]":                        `[["b","a"],["a","b"]]`,
		".same|sort_by(-.b)|.[0]":                        `{"a":3,"b":4}`,
		`"{\"y\":1,\"x\":[{\"q\":1,\"p\":2}]}"|fromjson`: `{"y":1,"x":[{"q":1,"p":2}]}`,
		`try ("{"|fromjson) catch "bad", try (1|fromjson) catch "bad"`: `"bad" "bad"`,
		".rows[0].nested|[..|numbers],[recurse|numbers]":               `[1,2] [1,2]`,
		"[.rows[0]|paths]":          `[["name"],["id"],["nested"],["nested","b"],["nested","a"],["nested","a","c"]]`,
		"[.rows[0]|paths(numbers)]": `[["id"],["nested","b"],["nested","a","c"]]`,
		"[.rows[0]|leaf_paths]":     `[["name"],["id"],["nested","b"],["nested","a","c"]]`,
		"[.meta|leaf_paths]":        `[["id"]]`,
		".meta|flatten":             `[1,null]`,
		".rows[0].nested|@text,@html,[@base64,@uri|length]": `"{\"b\":1,\"a\":{\"c\":2}}" "{&quot;b&quot;:1,&quot;a&quot;:{&quot;c&quot;:2}}" [28,47]`,
		"[.rows[0].nested|tostream]":                        `[[["b"],1],[["a","c"],2],[["a","c"]],[["a"]]]`,
		"fromstream(.rows|tostream)":                        `[{"name":"n","id":3,"nested":{"b":1,"a":{"c":2}}}]`,
		"[[],{}]|[tostream]":                                `[[[0],[]],[[1],{}],[[1]]]`,
		"[range(5)]|[_nwise(2)]":                            `[[0,1],[2,3],[4]]`,
		`5,"abc"|ltrimstr("a")`:                             `5 "bc"`,
		`[],"abc"|rtrimstr("bc")`:                           `[] "a"`,
		"1|debug,debug(.),stderr":                           `1 1 1`,
		"input_filename,get_search_list":                    `null []`,
		"[path(..)]|length":                                 `22`,
		`[{b:1,a:2},{a:3,b:4}]|map(keys_unsorted)|.[0]`:     `["a","b"]`, // one order for objects with the same names
	} {
		if got, err := resultsOf(t, doc, query); err != nil || got != want {
			t.Errorf("jq %q is\n%s, %v; want\n%s", query, got, err, want)
		}
	}
}

// TestHints: an error says what jq would have taken, and a query about a key that no object has is
// not answered with null alone.
func TestHints(t *testing.T) {
	doc := `{"b":1,"a":[{"z":1,"y-y":2},{"z":3}]}`
	for query, want := range map[string]string{
		".a[0].y-y":                              `a name with "-" is written ."y-y"`,
		"['x']":                                  "texts have double quotes",
		".b|keys":                                `the jq query ".b|keys" failed: keys cannot`,
		".nope":                                  "no object here has the key nope; the keys are b, a, z, y-y",
		".a[]|select(.nope==1)":                  "no object here has the key nope",
		`.a|map(.["nope"])`:                      "no object here has the key nope",
		".a[].z":                                 "",
		".a[]|{n:.z}|.n":                         "",
		".a[1][\"y-y\"]":                         "",
		`[{key:"k",value:null}]|from_entries|.k`: "",
	} {
		res, err := Run(t.Context(), Source{ArtifactID: "a", Content: strings.NewReader(doc), Size: int64(len(doc)), Chars: 1000, CPU: time.Minute}, Query{Query: query})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(res.Notes, "; ")
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("jq %q says %s; want %s", query, got, want)
		}
	}
}
