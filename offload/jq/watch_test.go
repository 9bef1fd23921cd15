package jq

import (
	"strings"
	"testing"
	"time"
)

// TestWatch: an answer that depends on how jq orders values of several types, or numbers in strings, says so.
func TestWatch(t *testing.T) {
	for _, row := range []struct{ text, query, want, note string }{
		{`[{"a":"10","b":9}]`, `.[] | .a < .b`, "false", `.a < .b compares "10" with 9`},
		{`[{"a":"10","b":9}]`, `.[0] as {$a, $b} | $b > $a`, "false", `$b > $a compares 9 with "10"`},
		{`[{"a":"10"}]`, `map(select(.a == 10))`, "[]", "a string never equals a number"},
		{`[{"a":"10"}]`, `map(select(10.0 != .a)) | length`, "1", "a string never equals a number"},
		{`[{"a":"x","n":5}]`, `map(select(.a != 10 and .n == 5)) | length`, "1", ""},
		{`["10","9"]`, `map(select(. > 9)) | length`, "2", `. > 9 compares "10" with 9`},
		{`["10","9"]`, `map(select(. > "9")) | length`, "0", `compares the strings "10" and "9" by their characters`},
		{`["10","9"]`, `map(tonumber | select(. > 9)) | length`, "1", ""},
		{`["2025-01-02","2024-01-01","7x"]`, `map(select(. > "2024-06")) | sort | length`, "2", ""},
		{`[{"ms":"N/A"},{"ms":5}]`, `map(select(.ms > 50)) | length`, "1", `.ms > 50 is true for "N/A" and 50`},
		{`[{"ms":"N/A"},{"ms":5}]`, `map(select(.ms < 50)) | length`, "1", ""},
		{`[{"n":"a"},{"ms":5}]`, `map(select(.ms < 50)) | length`, "2", ".ms < 50 is true for null and 50"},
		{`[{"n":"a"},{"ms":5}]`, `map(select(.ms > 4 and .ms != null)) | length`, "1", ""},
		{`[3,"10",1]`, `sort`, `[1,3,"10"]`, "sort has numbers such as 1 and strings such as \"10\""},
		{`[3,"n/a",1]`, `max`, `"n/a"`, `max has numbers such as 1 and strings such as "n/a"`},
		{`[{"a":"9"},{"a":"1"},{"a":"10"}]`, `max_by(.a).a`, `"9"`, `max_by sorts strings such as "10" by their characters`},
		{`[{"a":"9","b":2},{"a":"10","b":1}]`, `sort_by(.b, .a) | map(.b)`, `[1,2]`, `sort_by sorts strings such as "10"`},
		{`[{"a":"1"},{"a":1}]`, `group_by(.a) | length`, "2", "group_by has numbers such as 1 and strings such as \"1\""},
		{`[{"a":"9"},{"a":"10"}]`, `group_by(.a) | length`, "2", ""},
		{`["9","10","9"]`, `unique | length`, "2", ""},
		{`[{"n":"x"},{"n":"y","ms":5}]`, `min_by(.ms).n`, `"x"`, "min_by has null (also of a missing key)"},
		{`[{"n":"x"},{"n":"y","ms":5}]`, `max_by(.ms).n`, `"y"`, ""},
		{`["5","6"]`, `add`, `"56"`, `add joins or repeats strings such as "6"`},
		{`["5","6"]`, `.[0] + .[1], add(.[]), 2 * .[0]`, "\"56\"\n\"56\"\n\"55\"", `+ joins or repeats strings such as "6"`},
		{`["5","a"]`, `add, ("n" + "1"), (1 + 2) * 2`, "\"5a\"\n\"n1\"\n6", ""},
		{`[1,2]`, `[(1,2) + (10,20)], [(1,2) < (1,2)], (.[0] += 5), del(.[] | select(. > 1)), [paths(. > 1)]`, "[11,12,21,22]\n[false,false,true,false]\n[6,2]\n[1]\n[[1]]", ""},
		{`["1",2]`, `IN(.[]; 1), (.[0] | IN(1, 2))`, "false\nfalse", `IN compares "1" with 1`},
		{`[9007199254740993,12345678901234567890,-9007199254740993.0]`, `map(floor), (.[0] | ceil, round, trunc, . + 1)`,
			"[9007199254740993,12345678901234567890,-9007199254740992]\n9007199254740993\n9007199254740993\n9007199254740993\n9007199254740994", ""},
		{`[1.5,-1.5]`, `map(floor), map(ceil), map(trunc)`, "[1,-2]\n[2,-1]\n[1,-1]", ""},
		{`[{"v":true},{"v":"false"}]`, `map(select(.v)) | length`, "2", `a condition is "false", which is true in jq`},
		{`[{"v":""}]`, `.[] | if .v then 1 else 2 end`, "1", `a condition is ""`},
		{`[{"v":[]},{"v":0}]`, `(.[0].v and true), (.[1].v | not), (if .[0] == 1 then 1 elif .[0].v then 2 else 3 end)`, "true\nfalse\n2", "a condition is []"},
		{`[{"v":"x"},{"v":null},{"n":false,"v":5}]`, `map(select(.v and (.n | not) and (.v == "x" or .v > 1))) | length`, "2", ""},
		{`[["a","b"],["ab"]]`, `map(select(contains(["a"]))) | length`, "2", `contains and inside find "a" in "ab"`},
		{`[["a","b"],["c"]]`, `map(contains(["a"])), (.[0] | inside(["a","b","ab"])), ("abc" | contains("b")), ({"a":["b"]} | contains({"a":["b"]}))`, "[true,false]\ntrue\ntrue\ntrue", ""},
		{`[1,2]`, `path(.[] | select(. > 1))`, "[1]", ""},
		{`{"a":1,"a":2}`, `.a`, "2", `an object has the name "a" again`},
		{`{"a":1,"b":{"a":2}}`, `.a`, "1", ""},
		{`[{"a":"10"}]`, `def over(f; $n): f > $n; path(.[] | select(over(.a; 9)))`, "[0]", `f > $n compares "10" with 9`},
		{`[{"id":1},{"id":2},{"id":3}]`, `map(select(.id == 1 or 2)) | length`, "3", "the condition 2 is always true; write the comparison again"},
		{`[{"id":"a"},{"id":"b"}]`, `map(select(.id == "a" or true or .id)) | length`, "2", ""},
		{`[{"s":"OPEN"},{"s":"DONE"}]`, `map(select(.s == "open")) | length`, "0", `.s == "open" compares "OPEN" with "open", which are not equal`},
		{`[{"s":"OPEN"},{"s":"open"}]`, `(map(select(.s == "open" or .s == "OPEN")), map(select((.s | ascii_downcase) == "open"))) | length`, "2\n2", ""},
		{`[{"ok":"true"},{"ok":"false"}]`, `map(select(.ok == true)) | length`, "0", `.ok == true compares "true" with true, which are not equal`},
		{`[{"ok":true},{"ok":"x"},{"ok":null}]`, `map(select(.ok != true and .ok != null)) | length`, "1", ""},
		{`[{"m":""},{"m":"x"}]`, `map(select(.m != null)) | length`, "2", `.m != null compares "" with null, which are not equal`},
		{`["01/02/2025","12/31/2024"]`, `map(select(. >= "2025-01-01")) | length`, "0", `compares "01/02/2025" and "2025-01-01" by their characters, not as dates`},
		{`["10M","2G","900K"]`, `max`, `"900K"`, `max sorts strings such as "900K" by their characters, not as dates or numbers`},
		{`["10M","x1","a"]`, `max`, `"x1"`, ""},
		{`["12/31/2024","01/05/2025"]`, `max`, `"12/31/2024"`, `max sorts strings such as "12/31/2024" by their characters, not as dates`},
		{`["Mon, 06 Jan 2025 10:00:00 GMT","Tue, 31 Dec 2024 10:00:00 GMT"]`, `max`, `"Tue, 31 Dec 2024 10:00:00 GMT"`, `by their characters, not as dates`},
		{`["31.12.2024","01.05.2025"]`, `.[0] > .[1]`, "true", `by their characters, not as dates`},
		{`["10.0.0.9","10.0.0.10","x"]`, `sort | .[-2]`, `"10.0.0.9"`, `such as "10.0.0.9" by their characters, not as dates or numbers`},
		{`[{"ms":4},{"ms":null},{},{"ms":8}]`, `map(.ms) | add / length`, "3", "add leaves out null (also of a missing key), and length counts it"},
		{`[{"ms":4},{},{"ms":8}]`, `(map(.ms) | add) / length`, "4", "length counts it"},
		{`[{"ms":4},{},{"ms":8}]`, `map(.ms | numbers) | add / length, length`, "6\n2", ""},
		{`[{"ms":4},{},{"ms":8}]`, `(map(.ms) | add), length`, "12\n3", ""},
		{`["web-9","x","web-10"]`, `max`, `"x"`, `such as "web-9" by their characters`},
		{`["web-9","web-10"]`, `.[0] > .[1]`, `true`, `"web-9" and "web-10" by their characters`},
		{`[{"s":"low"},{"s":"critical"},{"s":"high"}]`, `max_by(.s).s`, `"low"`, `by their characters`},
		{`["web-09","web-10","db-9"]`, `max`, `"web-10"`, ""},
		{`["v1.9.2","v1.10.0"]`, `.[0] > .[1]`, "true", `compares "v1.9.2" and "v1.10.0" by their characters`},
		{`["1.2.3","1.2.4","a/b/2024"]`, `max, (.[0] < .[1]), .[0] == .[1]`, "\"a/b/2024\"\ntrue\nfalse", ""},
		{`{"a":"x"}`, `.a == "x" and ("\(.a)" < "y") and ([1] < [2]) and ({} < {"b":1})`, "true", ""},
	} {
		res, err := Run(t.Context(), Source{ArtifactID: "a", Content: strings.NewReader(row.text), Size: int64(len(row.text)), Chars: 1000, CPU: time.Minute}, Query{Query: row.query})
		if err != nil {
			t.Errorf("%s on %s: %v", row.query, row.text, err)
			continue
		}
		var got []string
		for _, result := range res.Results {
			got = append(got, string(result))
		}
		if notes := strings.Join(res.Notes, "|"); strings.Join(got, "\n") != row.want || !strings.Contains(notes, row.note) || row.note == "" && notes != "" {
			t.Errorf("%s on %s is\n%s\n%s\nwant %s and the note %q", row.query, row.text, strings.Join(got, "\n"), notes, row.want, row.note)
		}
	}
}
