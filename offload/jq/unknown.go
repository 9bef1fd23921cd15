package jq

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// says matches the results that have no data, such as null and [null, 0].
var says = lazyregexp.New(`^(?:null|true|false|0|""|"(?:[^"\\\\]|\\\\.)*":|[\[\]{},\s])*$`)

// maxUnknown is how many keys of the document a note shows.
const maxUnknown = 20

// noteUnknown adds a note if the results say nothing, and the query has a key that no object of the
// artifact has.
func (r *runner) noteUnknown() {
	for _, result := range r.res.Results {
		if !says.Match(result) {
			return
		}
	}
	if len(r.keys.rank) == 0 || len(r.keys.rank) == maxNames {
		return
	}
	query, written := r.query(), newKeyOrder()
	written.read(query)
	var unknown []string
	makes := false
	each(reflect.ValueOf(query), func(node any) bool {
		name := ""
		switch node := node.(type) {
		case *gojq.Index:
			text := node.Str
			if node.Start != nil && !node.IsSlice && node.Start.Term != nil {
				text = node.Start.Term.Str
			}
			if name = node.Name; text != nil && len(text.Queries) == 0 {
				name = text.Str
			}
		case *gojq.Func:
			makes = makes || slices.Contains([]string{"from_entries", "with_entries", "fromjson", "capture", "setpath", "reduce", "match"}, node.Name)
		}
		_, read := r.keys.rank[name]
		_, wrote := written.written[name]
		if name != "" && !read && !wrote && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
		return true
	})
	if makes || len(unknown) == 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(r.keys.rank), func(a, b string) int { return cmp.Compare(r.keys.rank[a], r.keys.rank[b]) })
	more := ""
	if len(keys) > maxUnknown {
		keys, more = keys[:maxUnknown], ", ..."
	}
	r.res.Notes = append(r.res.Notes, fmt.Sprintf("no object here has the key %s; the keys are %s%s",
		strings.Join(unknown, ", "), tools.Excerpt(strings.Join(keys, ", "), 400), more))
}
