package commands

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// agentView shows what an agent does while it runs. If stream is set, it writes the
// text of the model to stdout as it arrives. Otherwise stdout gets only the final answer,
// and the text of a turn that calls tools goes to stderr. Tool calls always go to stderr.
type agentView struct {
	stdout, stderr io.Writer
	stream         bool
	styled         bool // stdout shows styles: each block of the Markdown is written when it is complete

	turn int    // whose text is below
	text string // of the turn, as far as it arrived
	gap  bool   // a piece of the text was lost
	held string // of the text: the begin of a block that is not complete
	open bool   // the last line of the output is not complete
	err  error  // of stdout

	calls []string // shown as started: each attempt of a run reports its calls again
}

// add shows a progress event.
func (v *agentView) add(event tools.ProgressEvent) {
	for _, a := range event.Activity {
		if a.Type != tools.ActivityText { // a line each
			a.Tool, a.Args, a.Text = tools.EscapeLine(a.Tool), tools.EscapeLine(a.Args), tools.EscapeLine(a.Text)
		}
		switch a.Type {
		case tools.ActivityText:
			v.addText(a)
		case tools.ActivityWaiting:
			v.note("… %s", a.Text)
		case tools.ActivityToolStart:
			v.flush(a.Turn)
			if !slices.Contains(v.calls, a.Call) {
				v.calls = append(v.calls, a.Call)
				v.note("→ %s %s", a.Tool, a.Args)
			}
		case tools.ActivityToolEnd:
			switch a.Outcome {
			case tools.Completed:
				v.note("✓ %s (%d ms)", a.Tool, a.DurationMS)
			case tools.Async:
				v.note("✓ %s: started in the background", a.Tool)
			default:
				v.note("✗ %s: %s (%d ms) %s", a.Tool, a.Outcome, a.DurationMS, a.Text)
			}
		}
	}
}

func (v *agentView) addText(a tools.Activity) {
	if a.Turn != v.turn {
		v.endLine()
		v.turn, v.text, v.gap = a.Turn, "", false
	}
	have := utf8.RuneCountInString(v.text)
	switch {
	case a.Offset < have:
		v.text = string([]rune(v.text)[:a.Offset])
		if v.stream {
			v.note("(the answer was cut off; the model begins it again)")
			v.writeText(v.text)
		}
	case a.Offset > have:
		v.gap = true
	}
	v.text += a.Text
	if v.stream {
		v.writeText(a.Text)
	}
}

// writeText writes a piece of the model's text.
func (v *agentView) writeText(text string) {
	if !v.styled {
		v.write(text)
		return
	}
	v.held += text
	if end := wholeBlocks(v.held); end > 0 {
		v.writeStyled(v.held[:end])
		v.write("\n\n")
		v.held = v.held[end:]
	}
}

func (v *agentView) writeStyled(text string) {
	if v.err == nil {
		_, v.err = io.WriteString(cli.Raw(v.stdout), strings.Trim(styledText(text), "\n"))
		v.open = true
	}
}

// flush shows the text of a turn that turned out not to be the answer.
func (v *agentView) flush(turn int) {
	if !v.stream && v.turn == turn && strings.TrimSpace(v.text) != "" {
		v.note("%s", strings.TrimSpace(v.text))
	}
	if v.turn == turn {
		v.turn, v.text = 0, ""
	}
}

// answer shows the final answer, unless the user has seen it.
func (v *agentView) answer(text string) error {
	text = strings.TrimRight(text, "\n")
	seen := v.stream && !v.gap && v.text != "" && strings.TrimSpace(v.text) == strings.TrimSpace(text)
	v.endLine()
	switch {
	case seen:
	case v.styled:
		v.writeStyled(text)
		v.write("\n")
	default:
		v.write(text + "\n")
	}
	return v.err
}

func (v *agentView) write(text string) {
	if text == "" || v.err != nil {
		return
	}
	_, v.err = io.WriteString(v.stdout, text)
	v.open = !strings.HasSuffix(text, "\n")
}

// note writes a line about the run. It is lost if stderr is closed.
func (v *agentView) note(format string, args ...any) {
	v.endLine()
	cli.Note(v.stderr, format, args...)
}

// endLine ends a line that the model has not ended.
func (v *agentView) endLine() {
	if strings.TrimSpace(v.held) != "" {
		v.writeStyled(v.held)
	}
	v.held = ""
	if v.open {
		v.write("\n")
	}
}
