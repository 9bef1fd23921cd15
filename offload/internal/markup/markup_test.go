package markup

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: 1\nb: [x, 1.50, true, ~, 0777, 0x1F, 1e9, .inf, 2026-01-01, yes]\n": `{"a":1,"b":["x",1.50,true,null,"0777","0x1F","1e9",".inf","2026-01-01","yes"]}`,
		"name: x\nversion: 1.50\n":                                          `{"name":"x","version":1.50}`,
		"on: {push: }\n1: \"2\"\n":                                          `{"on":{"push":null},"1":"2"}`,
		"---\na: [1]\n---\n...\n---\nb: 2\n":                                `[{"a":[1]},{"b":2}]`,
		"t: |\n  two\n  lines\nf: >\n  one\n  line\nl: []\n":                `{"t":"two\nlines\n","f":"one line\n","l":[]}`,
		"x: &x {a: 1, b: 2}\ny:\n  b: 3\n  <<: *x\nz: *x\n":                 `{"x":{"a":1,"b":2},"y":{"b":3,"a":1},"z":{"a":1,"b":2}}`,
		"x: &x {a: 1}\nw: &w {a: 2, c: 3}\ny: {<<: [*x, *w]}":               `{"x":{"a":1},"w":{"a":2,"c":3},"y":{"a":1,"c":3}}`,
		"a: !Ref B\nc: !GetAtt [D, !Sub E]\n":                               `{"a":{"!Ref":"B"},"c":{"!GetAtt":["D",{"!Sub":"E"}]}}`,
		"<a/>":                                                              `{"a":""}`,
		"\ufeff<a>x</a>":                                                    `{"a":"x"}`,
		"<a x='1'> y <!-- -->z</a>":                                         `{"a":{"@x":"1","#text":"y z"}}`,
		"<?xml version='1.0'?><r><b>1</b><c/><b>2</b> and <n:b>3</n:b></r>": `{"r":{"b":["1","2"],"c":"","n:b":"3","#text":"and"}}`,
		"<r><s><t>1</t></s><s><t>2</t><t>3</t></s><s/></r>":                 `{"r":{"s":[{"t":["1"]},{"t":["2","3"]},{}]}}`,
		"<r><f>x &amp; y</f><f m='1'/><f><![CDATA[<b>]]></f></r>":           `{"r":{"f":[{"#text":"x & y"},{"@m":"1"},{"#text":"<b>"}]}}`,
		"<plist><dict><key>a</key><array><integer>1</integer><true/></array><key>b</key><dict/></dict></plist>": `{"a":[1,true],"b":{}}`,
	} {
		format := YAML
		if strings.HasPrefix(strings.TrimPrefix(text, "\ufeff"), "<") {
			format = XML
		}
		if got, err := JSON([]byte(text), format, false); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	cut := "<r><s a='1'>x</s><s a='2'"
	if got, err := JSON([]byte(cut), XML, true); err != nil || strings.TrimSpace(string(got)) != `{"r":{"s":{"@a":"1","#text":"x"}}}` {
		t.Errorf("a text that is cut is %s, %v", got, err)
	}
}

// TestHostile: a text that is no document, or grows when it is read, is refused with the reason, in
// bounded memory.
func TestHostile(t *testing.T) {
	bomb, merges := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n", "a0: &a0 {k: [x]}\n"
	for i := range 12 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
		merges += fmt.Sprintf("a%d: &a%d {<<: [%s*a%d]}\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
	}
	entities := `<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;">]><lolz>&lol2;</lolz>`
	for _, row := range []struct{ text, format, want string }{
		{bomb, YAML, "repeats with aliases"},
		{merges, YAML, "repeats with aliases"},
		{"a: &a [*a]\n", YAML, "levels deep"},
		{"a: &a\n  <<: *a\n  b: [1]\n", YAML, "levels deep"},
		{"a:\n" + strings.Repeat("- ", 5_000) + "x", YAML, "levels deep"},
		{strings.Repeat("{a: ", 300_000), YAML, "depth"},
		{"a: 1\na: [2]\n", YAML, "a key again"},
		{"? [a, b]\n: [1]\n", YAML, "no text"},
		{"error: no such file\n", YAML, "no structure"},
		{"- milk\n- eggs\n", YAML, "no structure"},
		{"---\na: [1]\n---\nSome text.\n", YAML, "no document"},
		{"a: [1\n", YAML, "did not find"},
		{strings.Repeat("a: [x]\n", MaxSize/7+1), YAML, "more than 8 MiB"},
		{"<r>" + strings.Repeat("<a>x</a>", 8<<20), XML, "more than 8 MiB"},
		{entities, XML, "entity"},
		{strings.Repeat("<a>", 600) + strings.Repeat("</a>", 600), XML, "too deeply"},
		{"<a><b></a></b>", XML, "ends another"},
		{"<a>", XML, "no end"},
		{"<a/><b/>", XML, "one element"},
		{"text <a/>", XML, "one element"},
		{"<a x='1' x='2'/>", XML, "duplicate"},
		{"<plist><dict><string>a</string></dict></plist>", XML, "no key"},
		{"<a>\xff</a>", XML, "UTF-8"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Read(strings.NewReader(row.text), row.format)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "use grep_knowledge") {
			t.Errorf("%.60q is %.60q, %v; want an error with %q", row.text, got, err, row.want)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 600<<20 {
			t.Errorf("%.60q took %d MB", row.text, grown>>20)
		}
	}
	if data, err := JSON(bytes.Repeat([]byte("<a>"), 100), XML, true); err != nil || len(data) == 0 {
		t.Errorf("a cut text: %v", err)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte("a: &x [1]\nb: {<<: *x}\n"), true)
	f.Add([]byte("<a b='1'>c<d/><d/></a>"), false)
	f.Fuzz(func(t *testing.T, text []byte, yaml bool) {
		format := XML
		if yaml {
			format = YAML
		}
		for _, cut := range []bool{false, true} {
			if data, err := JSON(text, format, cut); err == nil && len(bytes.TrimSpace(data)) == 0 {
				t.Errorf("%q has no JSON", text)
			}
		}
	})
}
