package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// session is one question about one result: what the model has read.
type session struct {
	registry  *tools.Registry
	id        string // of the artifact
	notice    string // what the model sees instead of the result
	longLines bool
	read      strings.Builder
	calls     int
}

const maxCalls = 12

func (s *session) call(tool string, args map[string]any) (text string, failed bool) {
	data, err := json.Marshal(args)
	if err != nil {
		return err.Error(), true
	}
	s.calls++
	s.read.WriteString(string(data))
	res := s.registry.Run(context.Background(), tools.Call{ID: "q", Session: "eval", Tool: tool, Args: data}, nil)
	s.read.WriteString(res.ForLLM)
	return res.ForLLM, res.IsError
}

// isWordOf reports whether a text contains the answer as a word.
func (q question) isWordOf(text string) bool {
	return regexp.MustCompile(`(^|[^\w])` + regexp.QuoteMeta(q.answer) + `($|[^\w])`).MatchString(text)
}

var (
	found     = regexp.MustCompile(`^Found (at least )?(\d+) match`)
	firstLine = regexp.MustCompile(`^(Found|Lines|Characters) [^\n]*\n`)
	// A note begins with a word and a space, which no JSON array does.
	notes = regexp.MustCompile(`(\n\n\[[a-z]+ [^\n]*\])+$`)
)

// answers reports whether the answer of a reading tool has that of the question. A number
// of matches must be what the tool counted. The first line and the notes are no answers.
func (q question) answers(text string) bool {
	if m := found.FindStringSubmatch(text); m != nil && q.counts {
		return m[1] == "" && m[2] == q.answer
	}
	return q.isWordOf(notes.ReplaceAllString(firstLine.ReplaceAllString(text, ""), ""))
}

// advised returns the tools that the reference names, in its order.
func advised(reference string) (names []string) {
	head, _, _ := strings.Cut(reference, "<knowledge_list")
	for _, name := range regexp.MustCompile(`(\w+)\(artifact_id`).FindAllStringSubmatch(head, -1) {
		names = append(names, name[1])
	}
	return names
}

// naive follows the advice of the reference in its order.
func naive(s *session, q question) bool { return follow(s, q, func(args map[string]any) {}) }

// faulty is naive with the typical mistakes of models in each first call.
func faulty(s *session, q question) bool {
	return follow(s, q, func(args map[string]any) {
		args["knowledge_id"] = args["artifact_id"]
		delete(args, "artifact_id")
		if _, ok := args["pattern"]; ok {
			args["max_results"], args["ignore_case"], args["context_before"] = "5", "true", nil
		}
		if _, ok := args["start_line"]; ok {
			args["start_line"] = "-40"
		}
	})
}

func follow(s *session, q question, spoil func(map[string]any)) bool {
	for _, tool := range advised(s.notice) {
		args := map[string]any{"artifact_id": s.id}
		switch tool {
		case offload.ToolJQ:
			if q.query == "" {
				continue
			}
			args["query"] = q.query
		case offload.ToolGrep:
			args["pattern"] = q.pattern
			args["max_results"], args["context_after"] = 5, q.after
		case offload.ToolLines:
			args["start_line"] = -40
		}
		again := maps.Clone(args)
		spoil(args)
		text, failed := s.call(tool, args)
		if failed { // the error says how to call the tool
			text, failed = s.call(tool, again)
		}
		if !failed && q.answers(text) {
			return true
		}
	}
	return false
}

// greedy asks for all pages. It gives up after maxCalls.
func greedy(s *session, q question) bool {
	offset := 0
	for s.calls < maxCalls {
		text, failed := s.call(offload.ToolGet, map[string]any{"artifact_id": s.id, "offset": offset})
		if failed {
			return false
		}
		next := regexp.MustCompile(`^[^\n]*the next page has offset=(\d+)`).FindStringSubmatch(text)
		if !q.counts && q.answers(text) || q.counts && next == nil {
			return true // a reader of everything can count
		}
		if next == nil {
			return false
		}
		if _, err := fmt.Sscan(next[1], &offset); err != nil {
			return false
		}
	}
	return false
}

const (
	contextTokens  = 200_000
	truncateTokens = 25_000
)

func paste(text string, q question) (string, bool) {
	return text, offload.EstimateTokens(text) < contextTokens
}

func truncate(text string, q question) (string, bool) {
	runes := []rune(text)
	cut := min(len(runes), truncateTokens*5/2)
	shown := string(runes[:cut])
	if q.counts {
		return shown, cut == len(runes)
	}
	return shown, q.isWordOf(shown)
}
