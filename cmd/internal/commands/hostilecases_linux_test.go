package commands

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// nestings are, for each parser, what opens, what is inside, and what closes: "open inside close", which
// is repeated as often as it fits.
var nestings = map[string][]string{
	"content":       {`[ 1 ]`, `{"a": 1 }`, `> x \n`},
	"jq":            {`[ 1 ]`, `{"a": 1 }`, `[1, 1 ]`, `[{"a": 1 }]`, `[[], 1 ]`},
	"sql":           {`[ 1 ]`, `[{"a": 1 }]`, `[{"a":1},{"b": 1 }]`, `" x "`},
	"MCP frames":    {`{"jsonrpc":"2.0","id":1,"result": 1 }`, `[ 1 ]`},
	"settings":      {`[ 1 ]`, `{a: 1 }`, `-\x20 1 x`, `?\x20 1 x`, `a:\n\x20 1 x`},
	"JSON of hosts": {`{"mcpServers": 1 }`, `[ 1 ]`, `/* x */`},
	"TOML of hosts": {`[ a ]`, `a=[ 1 ]`, `a={ b=1 }`},
	"arguments":     {`{"path": 1 }`, `[ 1 ]`},
	"pages": {`<div> x </div>`, `<b><p> x </p></b>`, `<table><tr><td> x </td></tr></table>`, `<ul><li> x </li></ul>`,
		`<a\x20href=x> y </a>`, `<svg><g> x </g></svg>`},
	"markup":              {"** x **", "[ x ](u)", `>\x20 x \n`, "*a_ x _b*", "![ x ]", "<u> x </u>", "|a x \\n|-|"},
	"regular expressions": {`( a )*`, `(?: a ){2}`, `( a |b)`, `(?i: k )+`},
	"jq queries":          {`[ 1 ]`, `( . )`, `{a: 1 }`, `-( 1 )`, `"\\( 1 )"`},
	"sql queries":         {`( 1 )`, `abs( 1 )`, `(SELECT\x20 1 )`, `CASE\x20WHEN\x201\x20THEN\x20 1 \x20END`, `NOT\x20 1 x`},
	"histories":           {`[ {"role":"user","content":"x"} ]`, `{"content": 1 }`},
	"instructions":        {`[ 1 ]`, `{a: 1 }`},
}

// cases are inputs that are known to be hostile.
var cases = map[string]func() []string{
	"content": func() []string {
		return append(tablesOf(900_000), strings.Repeat("a\r", 400_000), strings.Repeat("\x00\xd8", 400_000))
	},
	"sql": func() []string { return tablesOf(900_000) },
	"jq":  func() []string { return tablesOf(900_000) },
	"lines": func() []string {
		return []string{strings.Repeat("\n", 900_000), strings.Repeat("é", 450_000), strings.Repeat("a1", 450_000)}
	},
	"settings": func() []string {
		return []string{aliases("%s: &%s [%s]\n"), aliases("%s: &%s {<<: [%s]}\n"), strings.Repeat("&a ", 300_000), strings.Repeat("a: 1\n", 150_000)}
	},
	"instructions": func() []string {
		return []string{aliases("%s: &%s [%s]\n") + "name: *z\n---\n", "name: |\n" + strings.Repeat(" x\n", 200_000) + "---\n"}
	},
	"TOML of hosts": func() []string {
		return []string{strings.Repeat("a.", 300_000) + "b = 1", numbered("[mcp_servers.a%d]\ncommand='x'\n", 30_000),
			numbered("[[a]]\n#%d\n", 90_000)}
	},
	"JSON of hosts": func() []string {
		return []string{`{"mcpServers":{` + numbered(`"a%d":{"command":"x","args":["y"]},`, 20_000) + `"z":{}}}`}
	},
	"arguments": func() []string {
		return []string{`{` + numbered(`"a%d":1,`, 80_000) + `"path":"x"}`, `{"path":"` + strings.Repeat("../", 300_000) + `"}`,
			`{"start_line":"` + strings.Repeat("1", 900_000) + `"}`}
	},
	"MCP frames": func() []string {
		return []string{numbered(`{"jsonrpc":"2.0","method":"m%d"}`+"\n", 25_000), strings.Repeat("data: {\n", 110_000),
			`{` + numbered(`"a%d":1,`, 80_000) + `"id":1}`}
	},
	"cron expressions": func() []string {
		return []string{"0 0 31 2 *", "* * 30 2 *", "0 0 29 2 1", "59 59 23 31 12 0", "*/1 */1 */1 */1 */1 */1", "0-59/0 * * * *",
			strings.Repeat("1,", 400_000) + "1 * * * *"}
	},
	"regular expressions": func() []string {
		return []string{`((a?){30}){30}b`, `(a*)*b`, `(.*)(.*)(.*)(.*)(.*)x`, `((\p{L}[a-z]^)+)*`, `[^x]{1000}y`, `(?i)(k|s|a|ſ){500}`, `(x+x+)+y`,
			`((a{0,31}){0,31})y`, `(a|aa|aaa)*z`, `\b\w+\b.*\b\w+\b$x`}
	},
	"jq queries": func() []string {
		return []string{`[range(1e9)]`, `def f: f; f`, `"a" * 1e9`, `[splits("a")|test("((a?){30}){30}b")]`,
			`reduce range(40) as $i ("a"; . + .) | length`, `getpath([range(1e6)])`}
	},
	"sql queries": func() []string {
		return []string{`WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT count(*) FROM x, a`,
			`SELECT printf('%1000000000d', 1) FROM a`,
			`SELECT group_concat(hex(zeroblob(1e7))) FROM a`, `SELECT * FROM a x JOIN a y ORDER BY random()`, `SELECT randomblob(1e9) FROM a`}
	},
	"pages": func() []string {
		return []string{numbered("<a%d>", 100_000), strings.Repeat("<a href='", 100_000), "<table>" + strings.Repeat("<td>", 200_000),
			"<table><tr>" + numbered("<td colspan=1000 rowspan=%d>x", 30_000), strings.Repeat("<table>", 120_000),
			strings.Repeat("<li>", 200_000), strings.Repeat("<blockquote>x", 60_000), "<p " + numbered("a%d=b ", 90_000) + ">",
			strings.Repeat("&amp;", 190_000), strings.Repeat("<!--", 220_000), "<pre>" + strings.Repeat("`", 900_000)}
	},
	"markup": func() []string {
		return []string{strings.Repeat("[", 900_000), strings.Repeat("*a ", 300_000),
			strings.Repeat("`", 900_000), strings.Repeat("[a](", 220_000), strings.Repeat("- ", 400_000),
			numbered("[a%d]: x\n", 60_000) + strings.Repeat("[a1]", 50_000),
			strings.Repeat("> ", 400_000), strings.Repeat("a**b_", 180_000), strings.Repeat("<a ", 300_000), strings.Repeat("![](", 220_000),
			strings.Repeat("|a", 400_000) + "\n" + strings.Repeat("|-", 400_000) + "\n", strings.Repeat("http://a.b/(", 70_000),
			numbered("`%d", 100_000), strings.Repeat("\\[", 400_000), strings.Repeat(" 1. x\n", 150_000)}
	},
	"histories": func() []string {
		return []string{`[` + strings.Repeat(`{"role":"user","content":"x"},`, 30_000) + `{"role":"user","content":"x"}]`,
			`[{"role":"tool","tool_call_id":"a","content":"` + strings.Repeat("x ", 400_000) + `"}]`,
			`[{"role":"user","content":[` +
				strings.Repeat(`{"type":"tool_result","tool_use_id":"a","content":"`+strings.Repeat("y", 500)+`"},`, 1_500) + `{"type":"text","text":"z"}]}]`}
	},
	"edits": func() []string {
		return []string{strings.Repeat("ab\n", 300_000), numbered("line %d\n", 90_000), strings.Repeat("a", 900_000),
			strings.Repeat("a\nb\n", 220_000)}
	},
	"outputs": func() []string {
		return []string{numbered("ERROR %d\n", 80_000), strings.Repeat("FAIL: x\n", 110_000), strings.Repeat("\x1b[31m", 180_000),
			strings.Repeat("x\b", 400_000), strings.Repeat("aaaa", 220_000)}
	},
	"pictures": pictureBombs,
}

// tablesOf are texts that look like tables of many forms, with at most a number of bytes.
func tablesOf(most int) (all []string) {
	for _, text := range []string{
		numbered("c%d,", 100_000) + "\n" + numbered("%d,", 90_000), strings.Repeat("a,b\n", 220_000), numbered("%d,x\n", 90_000),
		`"` + strings.Repeat(`a,""b`+"\n", 150_000), numbered(`{"k%d":1}`+"\n", 70_000),
		"[" + numbered(`{"a":{"b%d":[1]}},`, 40_000) + "1]", numbered("| %d | x |\n", 60_000), "|a|b|\n|-|-|\n" + numbered("|%d|x|\n", 60_000),
		numbered("k%d=v ", 80_000), strings.Repeat("a;b,c\td|e\n", 90_000),
		strings.Repeat(`{"a":`, 150_000), numbered(`{"a":"%d`+"\n", 80_000), "NAME  AGE\n" + numbered("pod-%d  3d\n", 60_000),
		numbered("2026-01-01T00:00:00Z INFO x=%d {\"a\":1}\n", 20_000), strings.Repeat(",", 900_000), strings.Repeat(`"`, 900_000),
		strings.Repeat(`"a",`, 200_000), numbered("1.%d,1e%[1]d,0x%[1]d\n", 35_000),
	} {
		all = append(all, text[:min(len(text), most)])
	}
	return all
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		if fmt.Fprintf(&b, format, i); b.Len() > 900_000 {
			break
		}
	}
	return b.String()
}

// aliases is a text in YAML in which each line names the one before ten times.
func aliases(format string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a: &a x\n")
	for c := 'b'; c <= 'z'; c++ {
		fmt.Fprintf(&b, format, string(c), string(c), strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 10), ", "))
	}
	return b.String()
}

// pictureBombs are small files that decode to large pictures.
func pictureBombs() (all []string) {
	palette := color.Palette{color.Black, color.White}
	sides := []int{3_000, 9_000, 16_000}
	if os.Getenv("STEVEDORE_HOSTILE") == "" {
		sides = sides[:1] // the others take seconds to make
	}
	for _, side := range sides {
		var file bytes.Buffer
		if png.Encode(&file, image.NewPaletted(image.Rect(0, 0, side, side), palette)) == nil && file.Len() < 1<<20 {
			all = append(all, file.String())
		}
	}
	if len(sides) == 1 {
		return all
	}
	var file bytes.Buffer
	frames := &gif.GIF{Config: image.Config{Width: 1_500, Height: 1_500}}
	for range 100 {
		frames.Image, frames.Delay = append(frames.Image, image.NewPaletted(image.Rect(0, 0, 1_500, 1_500), palette)), append(frames.Delay, 0)
	}
	if gif.EncodeAll(&file, frames) == nil && file.Len() < 1<<20 {
		all = append(all, file.String())
	}
	return all
}

// wordsOf returns the words of a text, in which escapes are those of Go.
func wordsOf(text string) (words []string) {
	for word := range strings.FieldsSeq(text) {
		if unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(word, `"`, `\"`) + `"`); err == nil {
			word = unquoted
		}
		words = append(words, word)
	}
	return words
}

// sample is how many inputs of each parser a run of all tests takes; "make fuzz" takes all.
const sample = 2

// inputsOf returns the inputs of a parser: the known ones, and those that are generated from a seed.
func inputsOf(name string) (inputs [][]byte) {
	var known []string
	if c := cases[name]; c != nil {
		known = c()
	}
	every := 1
	if os.Getenv("STEVEDORE_HOSTILE") == "" {
		every = (len(known) + eachParser + sample - 1) / sample
	}
	for i := 0; i < len(known)+eachParser; i += every {
		if i < len(known) {
			inputs = append(inputs, []byte(known[i]))
		} else {
			inputs = append(inputs, generate(name, parsers[name].tokens, i-len(known)))
		}
	}
	return inputs
}

// generate makes the n-th hostile input of a parser: one token or one pair of them again and again, an
// order by chance, or one that grows.
func generate(name, tokens string, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(len(name)), uint64(n)))
	words := wordsOf(tokens)
	pick := func() string { return words[r.IntN(len(words))] }
	size := []int{990_000, 300_000, 50_000, 3_000}[n%4]
	var b strings.Builder
	switch n % 5 {
	case 0:
		unit := pick()
		for b.Len() < size {
			b.WriteString(unit)
		}
	case 1: // nested
		open, inside, end := pick(), pick(), pick()
		if given := nestings[name]; len(given) > 0 {
			parts := wordsOf(given[r.IntN(len(given))])
			open, inside, end = parts[0], parts[1], parts[2]
		}
		depth := size / (len(open) + len(end))
		if n%3 == 0 {
			depth = min(depth, 50+r.IntN(5000)) // a limit of the depth may be far below the size
		}
		b.WriteString(strings.Repeat(open, depth) + inside + strings.Repeat(end, depth))
	case 2:
		for b.Len() < size {
			b.WriteString(pick())
		}
	case 3: // lines of a few tokens
		unit := []string{pick(), pick(), pick(), pick()}
		for i := 0; b.Len() < size; i++ {
			b.WriteString(unit[i%4] + strconv.Itoa(i%1000) + []string{"", "\n", " "}[r.IntN(3)])
		}
	case 4: // each line is longer than the one before
		unit := pick() + pick()
		for i := 1; b.Len() < size; i++ {
			b.WriteString(strings.Repeat(unit, i) + "\n")
		}
	}
	return []byte(b.String())[:min(b.Len(), size)]
}

// eachParser is how many inputs each parser gets.
const eachParser = 20
