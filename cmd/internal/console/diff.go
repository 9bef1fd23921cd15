package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/linediff"
)

const (
	// maxDiffText is how much of each result a diff compares, in bytes.
	maxDiffText = 1 << 20
	// maxDiffLines and maxDiffLine bound the lines of a diff and the bytes of one.
	maxDiffLines = 2000
	maxDiffLine  = 500
	// maxDiffDepth is how deep JSON may be to be indented: the indent of each value takes time and memory.
	maxDiffDepth = 20
)

// diffRequest names two calls.
type diffRequest struct {
	Session     string `json:"session"`
	ID          string `json:"id"`
	WithSession string `json:"with_session"`
	With        string `json:"with"`
}

// lineDiff is what is in the result of the first call, and not in that of the second one, by lines.
type lineDiff struct {
	Added   int        `json:"added"`
	Removed int        `json:"removed"`
	Lines   []diffLine `json:"lines"`
	// Cut: there are more lines than Lines. Partial: only the start of a result was compared.
	Cut     bool `json:"cut,omitempty"`
	Partial bool `json:"partial,omitempty"`
	// Approximate: a difference of fewer lines may exist.
	Approximate bool `json:"approximate,omitempty"`
}

// diffLine is a line with its Number in the first result; of a removed line, in the second one.
type diffLine struct {
	Kind   string `json:"kind"` // "added", "removed", "equal", or "gap" between two changes
	Number int    `json:"number"`
	Text   string `json:"text"`
}

var diffResults = rpc.Define("diffResults", "", "Compare the results of two calls by lines.", diff)

func diff(ctx context.Context, env rpc.Env, in diffRequest) (d lineDiff, err error) {
	if in.With == "" || in.WithSession == "" {
		return d, badArgument("want with and with_session: the call to compare with")
	}
	after, cut, err := resultText(ctx, env, tools.CallKey{Session: in.Session, ID: in.ID})
	if err != nil {
		return d, err
	}
	before, cutToo, err := resultText(ctx, env, tools.CallKey{Session: in.WithSession, ID: in.With})
	if err != nil {
		return d, err
	}
	after, before = indentBoth(after, before)
	groups, exact := linediff.Compare(before, after)
	d.Lines, d.Partial, d.Approximate = []diffLine{}, cut || cutToo, !exact
	for i, group := range groups {
		if i > 0 && len(d.Lines) < maxDiffLines {
			d.Lines = append(d.Lines, diffLine{Kind: "gap"})
		}
		for _, l := range group {
			line := diffLine{"equal", l.After, tools.Excerpt(strings.TrimSuffix(l.Text, "\n"), maxDiffLine)}
			switch l.Op {
			case '-':
				line.Kind, line.Number = "removed", l.Before
				d.Removed++
			case '+':
				line.Kind = "added"
				d.Added++
			}
			if d.Cut = len(d.Lines) >= maxDiffLines; !d.Cut {
				d.Lines = append(d.Lines, line)
			}
		}
	}
	return d, nil
}

// resultText returns the text of the last result of a call, or its start: all of it, also if it is an
// artifact.
func resultText(ctx context.Context, env rpc.Env, k tools.CallKey) (text string, cut bool, err error) {
	call, err := showCall.Here(ctx, env.Bus, "", k)
	if err != nil {
		return "", false, err
	}
	if len(call.Results) == 0 {
		return "", false, tools.Errorf(tools.CodeNotFound, "the call %.80q has no result", k.ID)
	}
	last := call.Results[len(call.Results)-1]
	data := []byte(last.ForLLM)
	if last.Artifact != nil {
		if data, err = artifactStart(ctx, env.Bus, last.Session, last.Artifact.ID); err != nil {
			return "", false, err
		}
	}
	if cut = len(data) > maxDiffText; cut {
		data = data[:maxDiffText]
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), cut, nil
}

// indentBoth indents two results that are JSON, so that their lines can be compared. Other texts stay as they
// are, and so does JSON beside one: it would differ in each line.
func indentBoth(a, b string) (string, string) {
	indented := [2]bytes.Buffer{}
	for i, text := range []string{a, b} {
		if depthOf([]byte(text)) > maxDiffDepth || json.Indent(&indented[i], []byte(strings.TrimSpace(text)), "", " ") != nil {
			return a, b
		}
	}
	return indented[0].String(), indented[1].String()
}

// depthOf returns how deep the arrays and objects of JSON are, up to its first error.
func depthOf(data []byte) (deepest int) {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}

// artifactStart returns an artifact, or a little more than maxDiffText of it.
func artifactStart(ctx context.Context, b *bus.Bus, session, id string) ([]byte, error) {
	var start bytes.Buffer
	err := rpc.Download(ctx, b, session, id, 0, writerFunc(func(data []byte) (int, error) {
		start.Write(data)
		if start.Len() > maxDiffText {
			return len(data), io.EOF
		}
		return len(data), nil
	}))
	if errors.Is(err, io.EOF) && start.Len() > maxDiffText {
		err = nil
	}
	return start.Bytes(), err
}
