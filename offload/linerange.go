package offload

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// lineRangeText matches "10-20", "10-", "-10", "10", and the same with an en dash, ":", ".." or ",",
// also in brackets or quotes. Both numbers may be negative.
var lineRangeText = lazyregexp.New(`^[\s\[]*(-?\d+)?\s*(-|–|:|\.\.|,)?\s*(-?\d+|null)?[\s\]]*$`)

// ParseLines returns the range that a model or a person writes for lines of an artifact: "10-20",
// "10-" (to the end), "-10" (the last 10), "10" or 10 (one line), [10, 20], [10], or [10, null] (to
// the end). Lines are counted from 1. lines is a text or the decoded value of a JSON argument.
func ParseLines(lines any) (LinesQuery, error) {
	text, ok := lines.(string)
	if !ok { // a number or an array has the form of a text
		data, err := json.Marshal(lines)
		if err != nil {
			return LinesQuery{}, notLines(lines)
		}
		text = string(data)
	}
	m := lineRangeText.FindStringSubmatch(strings.ReplaceAll(text, `"`, ""))
	if m == nil || m[1]+m[3] == "" || m[1] == "" && (m[3][0] == '-' || m[3] == "null" || m[2] != "-" && m[2] != "–") {
		return LinesQuery{}, notLines(lines)
	}
	query := LinesQuery{}
	for _, number := range []struct {
		text string
		line *int64
	}{{m[1], &query.StartLine}, {m[3], &query.EndLine}} {
		if number.text == "" || number.text == "null" {
			continue
		}
		n, err := strconv.ParseInt(number.text, 10, 64)
		if err != nil || n == 0 {
			return LinesQuery{}, notLines(lines)
		}
		*number.line = n
	}
	switch {
	case m[1] == "": // "–10" with an en dash: the last 10
		return LinesQuery{StartLine: -query.EndLine}, nil
	case m[2] == "" && m[3] != "": // "1020" has one number
		return LinesQuery{}, notLines(lines)
	case m[2] == "" && query.StartLine > 0: // one line
		query.EndLine = query.StartLine
	}
	return query, nil
}

func notLines(lines any) error {
	return tools.Errorf(tools.CodeInvalidArguments,
		`lines %s: want a range such as "10-40", "10-" (to the end), "-20" (the last 20), [10, 40], or a line such as 10; lines are counted from 1`,
		tools.Excerpt(strings.TrimSpace(fmt.Sprint(lines)), 80))
}
