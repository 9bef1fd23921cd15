package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// TestNodeAgrees compares our JSON text and lengths with those of a real
// JavaScript engine on generated values. The generator omits intended differences:
// number text that JavaScript rewrites, and keys that it reorders.
func TestNodeAgrees(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed; the JSON text is checked by tables only")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for range 3000 {
		lines = append(lines, randomJSON(rng, 5))
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", `
const lines = require("fs").readFileSync(0, "utf8").split("\n").slice(0, -1);
for (const line of lines) {
  const v = JSON.parse(line);
  const s = typeof v === "string" ? v : JSON.stringify(v);
  console.log(JSON.stringify({
    compact: JSON.stringify(v), indented: JSON.stringify(v, null, 2), length: s.length,
    bytes: Buffer.from(s, "utf8").toString("hex"),
  }));
}`)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run node: %v", err)
	}
	answers := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(answers) != len(lines) {
		t.Fatalf("node answered %d of %d values", len(answers), len(lines))
	}
	for i, line := range lines {
		var want struct {
			Compact, Indented, Bytes string
			Length                   int
		}
		if err := json.Unmarshal(answers[i], &want); err != nil {
			t.Fatal(err)
		}
		value, err := normalize([]byte(line))
		if err != nil {
			t.Fatalf("normalize(%s): %v", line, err)
		}
		if value != want.Compact {
			t.Errorf("compact form of %s:\n got %s\nwant %s", line, value, want.Compact)
		}
		if got := indent(value); got != want.Indented {
			t.Errorf("indented form of %s:\n got %s\nwant %s", line, got, want.Indented)
		}
		if got := contentLength(value); got != want.Length {
			t.Errorf("length of %s: got %d, want %d", line, got, want.Length)
		}
		if got := fmt.Sprintf("%x", contentFile(value)); got != want.Bytes {
			t.Errorf("file of %s: got %s, want %s", line, got, want.Bytes)
		}
	}
}

func randomJSON(rng *rand.Rand, depth int) string {
	space := func() string { return []string{"", "", " ", "\t", "  "}[rng.IntN(5)] }
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	var b strings.Builder
	switch rng.IntN(kinds) {
	case 0:
		b.WriteString([]string{"null", "true", "false"}[rng.IntN(3)])
	case 1:
		b.WriteString([]string{"0", "-7", "42", "0.5", "-12.25", "9007199254740991", "1e+21"}[rng.IntN(7)])
	case 2:
		b.WriteString(randomString(rng, ""))
	case 3:
		b.WriteString("[" + space())
		for i := range rng.IntN(4) {
			if i > 0 {
				b.WriteString("," + space())
			}
			b.WriteString(randomJSON(rng, depth-1) + space())
		}
		b.WriteString("]")
	case 4:
		b.WriteString("{" + space())
		for i := range rng.IntN(4) {
			if i > 0 {
				b.WriteString("," + space())
			}
			key := randomString(rng, fmt.Sprintf("k%d", i)) // no integers, no repetitions
			b.WriteString(key + space() + ":" + space() + randomJSON(rng, depth-1))
		}
		b.WriteString("}")
	}
	return b.String()
}

func randomString(rng *rand.Rand, prefix string) string {
	parts := []string{
		"a", "Z", " ", "<", ">", "&", "'", "/", "é", "中", "😀", "\u2028", "\u2029", "\x7f", "[", "}", ",", ":",
		`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u001F`, `\u003c`, `\u00E9`, `\u2028`,
		`\uD83D`, `\ude00`, `\uD83D\uDE00`, `\ud800`, `\uFFFD`, `\uFEFF`,
	}
	var s strings.Builder
	s.WriteString(`"` + prefix)
	for range rng.IntN(8) {
		s.WriteString(parts[rng.IntN(len(parts))])
	}
	return s.String() + `"`
}
