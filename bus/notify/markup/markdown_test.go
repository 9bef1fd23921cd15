package markup

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Typical texts of models, in Slack's markup and as plain text.
func TestMarkdownDegrades(t *testing.T) {
	for _, test := range []struct{ markdown, slack, plain string }{
		{"# Title\nWith **bold**, *italic*, ~~gone~~ and `x <*> y`.", "*Title*\n\nWith *bold*, _italic_, ~gone~ and `x &lt;*&gt; y`.", "Title\n\nWith bold, italic, gone and x <*> y."},
		{"***both***", "_*both*_", "both"},
		{"[a & b](https://x.example/?a=1&b=<2>|3)", "<https://x.example/?a=1&amp;b=%3C2%3E%7C3|a &amp; b>", "a & b (https://x.example/?a=1&b=<2>|3)"},
		{"[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)", "https://bank.example (https://evil.example)"},
		{"[x](javascript:alert)", "x (javascript:alert)", "x (javascript:alert)"},
		{"<https://x.example> and https://y.example", "https://x.example and https://y.example", "https://x.example and https://y.example"},
		{"![a cat](https://x.example/cat.png)", "<https://x.example/cat.png|a cat>", "a cat (https://x.example/cat.png)"},
		{"- one\n- two\n  1. deep\n  2. deeper\n- [x] done", "• one\n• two\n  1. deep\n  2. deeper\n☑ done", "• one\n• two\n  1. deep\n  2. deeper\n☑ done"},
		{"> said\n> **so**\n\nafter", "&gt; said\n&gt; *so*\n\nafter", "> said\n> so\n\nafter"},
		{"```go\nif a < b { *p* }\n\n    # no title\n```", "```\nif a &lt; b { *p* }\n\n    # no title\n```", "if a < b { *p* }\n\n    # no title"},
		{"| Stadt | 人 |\n|---|---|\n| 北京 | 2 |\n| Bonn | 3 |", "```\nStadt  人\n-----  --\n北京   2\nBonn   3\n```", "Stadt  人\n-----  --\n北京   2\nBonn   3"},
		{"| a | b |\n|---|---|\n| **long** cell | 2 |", "```\na          b\n---------  -\nlong cell  2\n```", "a          b\n---------  -\nlong cell  2"},
		{"one\ntwo  \nthree\\\nfour\n\n---\n\nend", "one\ntwo\nthree\nfour\n\n———\n\nend", "one\ntwo\nthree\nfour\n\n———\n\nend"},
		{"**two\nlines**", "*two*\n*lines*", "two\nlines"},
		{"un**frigging**believable", "un\u200b*frigging*\u200bbelievable", "unfriggingbelievable"},
		{"**2 * 3**", "2 * 3", "2 * 3"}, // Slack has no way to write it
		{"<!channel> &lt;!here&gt; &#x202e;x", "&lt;!channel&gt; &lt;!here&gt; x", "<!channel> <!here> x"},
		{"**open *and ~~never `closed [x](", "**open *and ~~never `closed [x](", "**open *and ~~never `closed [x]("},
		{"````\n```\n````", "```", "```"},
		{"[ref]: https://x.example", "[ref]: https://x.example", "[ref]: https://x.example"}, // nothing visible otherwise
		{"snake_case and 2*3*4", "snake_case and 2\u200b_3_\u200b4", "snake_case and 234"},
	} {
		s := Parse(test.markdown)
		if got := WriteSlack(s); got != test.slack {
			t.Errorf("%q in Slack:\n got %q\nwant %q", test.markdown, got, test.slack)
		}
		if got := s.Plain().Text; got != test.plain {
			t.Errorf("%q as text:\n got %q\nwant %q", test.markdown, got, test.plain)
		}
	}
}

// A code block that is split is a code block in each message.
func TestSplitMarkdownIsComplete(t *testing.T) {
	var source strings.Builder
	for i := range 600 {
		fmt.Fprintf(&source, "line %d < of *code*\n", i)
	}
	pieces := Parse("Look:\n```\n"+source.String()+"```\nand **that** was it.").Split(4000, InRunes)
	for i, piece := range pieces {
		text := WriteSlack(piece)
		if strings.Count(text, "```") != 2 || utf8.RuneCountInString(piece.Text) > 4000 {
			t.Errorf("piece %d: %.60q ... %q", i, text, text[len(text)-60:])
		}
	}
	if last := WriteSlack(pieces[len(pieces)-1]); len(pieces) < 3 || !strings.HasSuffix(last, "```\n\nand *that* was it.") {
		t.Errorf("%d pieces, the last is %q", len(pieces), last)
	}
}

// A long text is parsed in pieces, without splitting its code blocks.
func TestLongMarkdown(t *testing.T) {
	part := "**Look** at this:\n\n```\nsome *code*\n\nand more\n```\n\n"
	s := Parse(strings.Repeat(part, 2000))
	want := strings.TrimSpace(strings.Repeat("*Look* at this:\n\n```\nsome *code*\n\nand more\n```\n\n", 2000))
	if got := WriteSlack(s); got != want {
		t.Errorf("%d bytes, want %d: %.300s", len(got), len(want), got)
	}
}

// Texts that are slow to parse, or that form tables of millions of cells, are
// parsed in time or shown unparsed.
func TestHostileMarkdown(t *testing.T) {
	const n = maxMarkdown
	wide := strings.Repeat("|a", n/8)
	for name, text := range map[string]string{
		"links": strings.Repeat("[a](", n/4), "quotes": strings.Repeat(">", n),
		"table": wide + "|\n" + strings.Repeat("|-", n/8) + "|\n" + strings.Repeat("|a\n", n/8), "long": strings.Repeat("*a* ", n),
	} {
		if got := Parse(text); strings.TrimSpace(got.Text) == "" {
			t.Errorf("%s: nothing is left", name)
		}
	}
	deep := strings.Repeat("> ", maxDepth+1) + "x"
	if got := Parse(deep); got.Text != deep {
		t.Errorf("deep quotes: %q", got.Text)
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("# a **b** `c`\n> - d\n\n|a|b|\n|-|-|\n|c|\n[x](https://y) ~~z~~ &amp; \\*")
	f.Fuzz(func(t *testing.T, source string) {
		s := Parse(Clean(source))
		for _, piece := range s.Split(100, InUTF16) {
			text := WriteSlack(piece)
			if strings.Contains(text, "<!") || !utf8.ValidString(text) {
				t.Errorf("%q becomes %q", source, text)
			}
			for _, sp := range piece.Spans {
				if sp.From >= sp.To || sp.To > len(piece.Text) {
					t.Fatalf("%q has the span %+v in %q", source, sp, piece.Text)
				}
			}
		}
	})
}

// Quotes and the language of code have the form of each service.
func TestQuotesAndLanguages(t *testing.T) {
	source := "> said *so*\n> - [ ] `a`\n>\n> > deep\n\nno > quote\n\n```go\n> x\n```\n```\"><script>\ny\n```"
	s := Parse(source)
	discord := WriteMarkdown(EscapeMarkdown, MarkdownLink)(s)
	if want := "> said _so_\n> \n> ☐ `a`\n> \n> > deep\n\nno > quote\n\n```go\n> x\n```\n\n```\ny\n```"; discord != want {
		t.Errorf("discord:\n got %q\nwant %q", discord, want)
	}
	if want := "&gt; said _so_\n&gt; \n&gt; ☐ `a`\n&gt; \n&gt; &gt; deep\n\nno &gt; quote\n\n```\n&gt; x\n```\n\n```\ny\n```"; WriteSlack(s) != want {
		t.Errorf("slack:\n got %q\nwant %q", WriteSlack(s), want)
	}
	text, quotes := s.Quotes()
	if want := "said so\n\n☐ a\n\ndeep\n\nno > quote\n\n> x\n\ny"; text.Text != want {
		t.Errorf("without marks: %q, want %q", text.Text, want)
	}
	if len(quotes) != 1 || text.Text[quotes[0].From:quotes[0].To] != "said so\n\n☐ a\n\ndeep" {
		t.Errorf("quotes %+v", quotes)
	}
	for source, want := range map[string]string{"a\n\n>": "a\n\n", ">": ">", "> \n> ": ">"} {
		if text, quotes := Parse(source).Quotes(); text.Text != want || len(text.Spans)+len(quotes) > 0 {
			t.Errorf("the empty quote %q: %+v, %+v", source, text, quotes)
		}
	}
	for _, sp := range text.Spans {
		if part := text.Text[sp.From:sp.To]; sp.Style == Italic && part != "so" || sp.Style == Code && part != "a" || sp.Language == "go" && part != "> x" {
			t.Errorf("%q has the style %d", part, sp.Style)
		}
	}
}
