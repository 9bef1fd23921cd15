package jq

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
)

// maxLooked is how many values aboutTexts looks at.
const maxLooked = 100_000

// aboutTexts returns a note if a query compares a key with a number, or sorts by it, and values have a number in
// quotes there: in jq, each string is greater than each number, and "10" is less than "9".
func aboutTexts(query *gojq.Query, values []any) string {
	var keys []string
	each(reflect.ValueOf(query), func(node any) bool {
		switch node := node.(type) {
		case *gojq.Query:
			if node.Op >= gojq.OpEq && node.Op <= gojq.OpLe {
				for _, pair := range [][2]*gojq.Query{{node.Left, node.Right}, {node.Right, node.Left}} {
					if number := pair[1].Term; number != nil && number.Type == gojq.TermTypeNumber {
						keys = append(keys, lastKey(pair[0]))
					}
				}
			}
		case *gojq.Func:
			if slices.Contains([]string{"sort_by", "max_by", "min_by"}, node.Name) && len(node.Args) == 1 {
				keys = append(keys, lastKey(node.Args[0]))
			}
		}
		return true
	})
	left := maxLooked
	var find func(v any) string
	find = func(v any) string {
		if left--; left < 0 {
			return ""
		}
		switch v := v.(type) {
		case []any:
			for _, v := range v {
				if note := find(v); note != "" {
					return note
				}
			}
		case map[string]any:
			for _, key := range keys {
				if text, ok := v[key].(string); ok && isNumber(text) {
					return fmt.Sprintf("%s has strings such as %q; in jq, each string is greater than each number; to compare or sort numbers, write (.%s|tonumber)",
						key, tools.Excerpt(text, 40), key)
				}
			}
			for _, v := range v {
				if note := find(v); note != "" {
					return note
				}
			}
		}
		return ""
	}
	if !slices.ContainsFunc(keys, func(key string) bool { return key != "" }) {
		return ""
	}
	return find(values)
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// lastKey returns the key with which a query such as .a.b ends, or "".
func lastKey(query *gojq.Query) string {
	if query == nil || query.Term == nil {
		return ""
	}
	for query.Term.Type == gojq.TermTypeQuery && len(query.Term.SuffixList) == 0 {
		if query = query.Term.Query; query.Term == nil {
			return ""
		}
	}
	index := query.Term.Index
	if n := len(query.Term.SuffixList); n > 0 {
		index = query.Term.SuffixList[n-1].Index
	}
	if index == nil {
		return ""
	}
	return index.Name
}
