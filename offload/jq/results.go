package jq

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// collect adds the results of one run. more is false if there is no room for others, or the query
// wants none.
func (r *runner) collect(results gojq.Iter) (more bool, err error) {
	for {
		v, ok := results.Next()
		if !ok {
			return true, nil
		}
		if err, ok := v.(error); ok {
			if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
				return false, nil
			}
			return false, r.inQuery(err)
		}
		if more, err := r.add(v); !more || err != nil {
			return false, err
		}
	}
}

// inQuery returns an error that ended a query.
func (r *runner) inQuery(err error) error {
	if _, ok := errors.AsType[*tools.Error](err); ok || errors.Is(err, limited.ErrMemory) || errors.Is(err, jsonread.ErrNotJSON) || r.ctx.Err() != nil {
		return err
	}
	if err.Error() == "break" { // what gojq returns for "input" after the last value
		err = errors.New("there is no more input")
	}
	return tools.Errorf(tools.CodeInvalidArguments, "the jq query %q failed: %v", tools.Excerpt(r.Query, 200), err)
}

func (r *runner) notJSON(err error) error {
	switch {
	case errors.Is(err, jsonread.ErrTooLong):
		return limited.ErrMemory
	case errors.Is(err, jsonread.ErrNotJSON):
		return tools.Errorf(tools.CodeInvalidArguments, "the artifact %q is not JSON (%v); use grep_knowledge or get_knowledge_by_lines", r.ArtifactID, err)
	}
	return err
}

// add adds a result.
func (r *runner) add(v any) (more bool, err error) {
	if r.emitted++; r.emitted <= r.Skip {
		return true, nil
	}
	text, err := r.keys.appendJSON(nil, v, r.left*utf8.UTFMax)
	tooLong := err == errTooLong || utf8.RuneCount(text) > r.left
	if err != nil && !tooLong {
		return false, badQuery(r.Query, err)
	}
	switch {
	case tooLong && len(r.res.Results) == 0:
		var why strings.Builder
		for _, note := range append(r.res.Notes, r.keys.watch.notes...) {
			why.WriteString(" (" + note + ")")
		}
		return false, tools.Errorf(tools.CodeInvalidArguments, "the first result of the query %q is %s, longer than the %d characters that can be shown%s; %s",
			tools.Excerpt(r.Query, 200), sizeOf(v), r.Chars, why.String(), narrower(v))
	case tooLong:
		r.res.Limited, r.res.NextCursor = true, cursor.Place{More: r.emitted - 1}.String()
		return false, nil
	}
	r.left -= utf8.RuneCount(text) + 1
	r.res.Results = append(r.res.Results, text)
	return true, nil
}

// narrower says how to narrow a query whose result is v.
func narrower(v any) string {
	switch v.(type) {
	case []any:
		return "narrow it, for instance with length or .[:10]"
	case map[string]any:
		return "narrow it, for instance with keys or the name of a field"
	}
	return "narrow it, for instance with length or .[:1000]"
}

// sizeOf describes a value that is too long.
func sizeOf(v any) string {
	switch v := v.(type) {
	case []any:
		return fmt.Sprintf("an array of %d elements", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d keys", len(v))
	case string:
		return fmt.Sprintf("a string of %d characters", utf8.RuneCountInString(v))
	}
	return "a number"
}
