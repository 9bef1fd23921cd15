package eval

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// The alternative to offloading that agents with a shell use: the result is in a file.
const (
	toolGrep      = "grep"
	toolReadLines = "read_lines"
	fileChars     = 30_000 // of an answer
	aroundMatch   = 200    // characters on each side of a match in a long line
	longLine      = 2_000  // characters
)

type fileGrepArgs struct {
	Pattern string `json:"pattern" jsonschema:"a regular expression in RE2 syntax"`
	Count   bool   `json:"count,omitempty" jsonschema:"return only the number of matches (grep -o | wc -l)"`
	Around  int    `json:"around,omitempty" jsonschema:"show this many characters on both sides of each match instead of its line (grep -oE '.{0,N}PATTERN.{0,N}'); for long lines"`
	After   int    `json:"after,omitempty" jsonschema:"lines to show after each match (grep -A)"`
	Max     int    `json:"max,omitempty" jsonschema:"matches to show (head -n); default all"`
}

type readLinesArgs struct {
	Start int `json:"start" jsonschema:"the first line, counted from 1; -40 means the last 40"`
	End   int `json:"end,omitempty" jsonschema:"the last line; default the end"`
}

// fileTools are "grep" and "sed -n" on a file with the text.
func fileTools(text string) (*tools.Registry, error) {
	lines := strings.Split(text, "\n")
	grep, err := tools.NewTool(toolGrep, "Search the lines of the file. Shows at most 30,000 characters.", func(_ context.Context, _ tools.Call, in fileGrepArgs) *tools.Result {
		re, err := regexp.Compile(in.Pattern)
		if err != nil {
			return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "%v", err))
		}
		if in.Count {
			n := 0
			for _, line := range lines {
				n += len(re.FindAllStringIndex(line, -1))
			}
			return tools.NewToolResult(fmt.Sprint(n))
		}
		var found []string
		for i, line := range lines {
			if in.Max > 0 && len(found) >= in.Max {
				break
			}
			switch {
			case in.Around > 0:
				for _, at := range re.FindAllStringIndex(line, max(in.Max-len(found), -1)) {
					found = append(found, fmt.Sprintf("%d:%s", i+1, strings.ToValidUTF8(line[max(at[0]-in.Around, 0):min(at[1]+in.Around, len(line))], "")))
				}
			case re.MatchString(line):
				found = append(found, fmt.Sprintf("%d:%s", i+1, strings.Join(lines[i:min(i+max(in.After, 0)+1, len(lines))], "\n")))
			}
		}
		if len(found) == 0 {
			return tools.NewToolResult("(no match)")
		}
		return tools.NewToolResult(firstRunes(strings.Join(found, "\n"), fileChars))
	})
	if err != nil {
		return nil, err
	}
	read, err := tools.NewTool(toolReadLines, "Read a range of lines of the file (sed -n). Shows at most 30,000 characters.", func(_ context.Context, _ tools.Call, in readLinesArgs) *tools.Result {
		from, to := in.Start-1, in.End
		if in.Start < 0 {
			from = len(lines) + in.Start
		}
		if to <= 0 || to > len(lines) {
			to = len(lines)
		}
		from = max(from, 0)
		return tools.NewToolResult(firstRunes(strings.Join(lines[min(from, to):to], "\n"), fileChars))
	})
	if err != nil {
		return nil, err
	}
	registry := tools.NewRegistry(zerolog.Nop())
	return registry, registry.Register(grep, read)
}

// fileNotice is what a model sees of a result that is in a file.
func fileNotice(text string) string {
	return fmt.Sprintf("[the output is in the file out.txt, %d lines, %d characters; it begins with:]\n%s", strings.Count(text, "\n")+1, len(text), firstRunes(text, 1_000))
}

// fileAndGrep counts with grep, searches with grep (of long lines, it shows the part around
// a match), and at last reads the end of the file.
func fileAndGrep(s *session, q question) bool {
	if q.counts {
		text, failed := s.call(toolGrep, map[string]any{"pattern": q.pattern, "count": true})
		return !failed && text == q.answer
	}
	args := map[string]any{"pattern": q.pattern, "max": 5, "after": q.after}
	if s.longLines {
		args = map[string]any{"pattern": q.pattern, "max": 5, "around": aroundMatch}
	}
	if text, failed := s.call(toolGrep, args); !failed && q.isWordOf(text) {
		return true
	}
	text, failed := s.call(toolReadLines, map[string]any{"start": -40})
	return !failed && q.isWordOf(text)
}

// hasLongLines reports whether the lines of a text are too long to be shown.
func hasLongLines(text string) bool {
	return len(text)/(strings.Count(text, "\n")+1) > longLine
}

// definitionTokens returns the tokens that the definitions of tools take in the prompt.
func definitionTokens(registry *tools.Registry) (int64, error) {
	n := int64(0)
	for _, def := range registry.Definitions() {
		schema, err := def.Parameters.MarshalJSON()
		if err != nil {
			return 0, err
		}
		n += offload.EstimateTokens(def.Name) + offload.EstimateTokens(def.Description) + offload.EstimateTokens(string(schema))
	}
	return n, nil
}

func firstRunes(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}
