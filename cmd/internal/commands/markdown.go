package commands

import (
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/notify/markup"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// writeMarkdown writes a text of a model to w, with its styles if w is a terminal that shows
// styles. Elsewhere the text stays as it is.
func writeMarkdown(w io.Writer, text string) error {
	if !cli.ShowsStyles(w) {
		_, err := io.WriteString(w, text)
		return err
	}
	_, err := io.WriteString(cli.Raw(w), styledText(text))
	return err
}

// styles are the codes with which terminals begin the styles of runs.
var styles = map[string]string{"bold": "1", "italic": "3", "strike": "9", "code": "36", "block": "36", "link": "4"}

// styledText returns a Markdown text with codes for terminals. Hidden characters are visible: the
// parser would remove them.
func styledText(text string) string {
	if text = strings.ReplaceAll(text, "\r\n", "\n"); markup.Clean(text) != text {
		text = tools.Escape(text)
	}
	var b strings.Builder
	runs := markup.Parse(text).Runs()
	for i, run := range runs {
		var codes []string
		for _, style := range run.Styles {
			codes = append(codes, styles[style])
		}
		shown := tools.Escape(run.Text)
		if len(codes) > 0 {
			shown = "\x1b[" + strings.Join(slices.Compact(codes), ";") + "m" + shown + "\x1b[0m"
		}
		b.WriteString(shown)
		if run.URL != "" && run.URL != run.Text && (i == len(runs)-1 || runs[i+1].URL != run.URL) {
			b.WriteString(" (" + tools.EscapeLine(run.URL) + ")")
		}
	}
	return b.String()
}

// wholeBlocks returns the length of the blocks of a Markdown text that are complete: those before
// its last empty line that is not in a fence.
func wholeBlocks(text string) (length int) {
	for length = range markup.Breaks(text) {
	}
	return length
}
