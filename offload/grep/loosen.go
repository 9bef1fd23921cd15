package grep

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// loosenings are the ways in which a text that looks like another one has other characters.
var loosenings = []struct {
	what  string
	plain func(string) string
}{
	{"a byte order mark", func(s string) string { return strings.TrimPrefix(s, "\ufeff") }},
	{"control sequences of a terminal", textscan.WithoutEscapes},
	{`escapes of JSON, such as \u00e9 and \/`, func(s string) string { return escape.ReplaceAllStringFunc(s, unescape) }},
	{"entities such as &amp;", html.UnescapeString},
	{"other spaces, tabs, quotes or dashes", func(s string) string { return spaces.ReplaceAllString(lookalikes.Replace(s), " ") }},
	{"accents as characters of their own", norm.NFC.String},
}

var (
	escape     = lazyregexp.New(`\\(?:u[0-9a-fA-F]{4}|[/"nt])`)
	spaces     = lazyregexp.New(`[\s\p{Zs}]+`)
	beside     = lazyregexp.New(` *([:,=]) *`)
	lookalikes = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`, "‐", "-", "‑", "-", "–", "-", "—", "-", "−", "-",
		"\u00ad", "", "\u200b", "")
)

func unescape(s string) string {
	switch {
	case s[1] == 'u':
		r, _ := strconv.ParseUint(s[2:], 16, 16) // of four digits
		return string(rune(r))
	case s[1] == 'n' || s[1] == 't':
		return " "
	}
	return s[1:]
}

const (
	maxLoosened = 16 << 20 // bytes of the longest line
	aroundMatch = 40       // bytes that are shown before a match
)

// looksLike says in which line a pattern would match if characters that look alike were the same, or returns "".
func looksLike(ctx context.Context, src interface {
	io.ReaderAt
	Size() int64
}, q Query) string {
	expr := spaces.ReplaceAllString(lookalikes.Replace(norm.NFC.String(q.Pattern)), " ")
	p, err := Compile(expr, q.IgnoreCase)
	tight, wrong := Compile(beside.ReplaceAllString(expr, "$1"), q.IgnoreCase)
	if err != nil || wrong != nil {
		return ""
	}
	lines := bufio.NewScanner(io.NewSectionReader(src, 0, src.Size()))
	lines.Buffer(nil, maxLoosened)
	for number := 1; lines.Scan() && ctx.Err() == nil; number++ {
		text := lines.Text() // without the CR of a CRLF
		for part := range strings.SplitSeq(text, "\r") {
			var why []string
			if len(part) < len(text) {
				why = append(why, "a CR between lines")
			}
			for _, l := range loosenings {
				if plain := l.plain(part); plain != part {
					part, why = plain, append(why, l.what)
				}
			}
			at := p.re.FindStringIndex(part)
			switch {
			case at == nil:
				part, why = beside.ReplaceAllString(part, "$1"), append(why, "other spaces beside : , or =")
				at = tight.re.FindStringIndex(part)
			case len(why) == 0 && expr == q.Pattern: // before the cursor
				continue
			case len(why) == 0:
				why = append(why, "other characters than the pattern")
			}
			if at != nil {
				shown := strings.ToValidUTF8(part[max(at[0]-aroundMatch, 0):], "")
				return fmt.Sprintf("line %d looks like a match (%q), but has %s", number, tools.Excerpt(shown, 3*aroundMatch), strings.Join(why, "; "))
			}
		}
	}
	return ""
}
