package jq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"
)

// instead returns what to ask in place of a query that needs too much memory. The input is the
// start of the document, or nil for the rows of a table.
func instead(text string, in io.Reader) string {
	query, plan, err := planOf(text)
	if err == nil && len(plan.path) == 0 && in != nil {
		plan.path = largestPart(in)
	}
	elements, advice := pathText(plan.path)+"[]", ""
	each(reflect.ValueOf(query), func(node any) bool {
		f, ok := node.(*gojq.Func)
		if !ok || advice != "" {
			return advice == ""
		}
		by := "."
		if len(f.Args) > 0 {
			by = f.Args[0].String()
		}
		switch f.Name {
		case "group_by", "unique_by", "unique":
			advice = fmt.Sprintf("Count with reduce, which reads one element after the other, as in reduce %s as $x ({}; .[$x | %s | tostring] += 1)", elements, by)
		case "sort_by", "sort":
			advice = fmt.Sprintf("Keep only the greatest elements, as in reduce %s as $x ([]; if length < 5 or ($x | [%s]) > (.[0] | [%s]) then . + [$x] | sort_by(%s) | .[-5:] end)", elements, by, by, by)
		}
		return true
	})
	if advice == "" {
		advice = fmt.Sprintf("Read one element after the other, as in first(%s), or %s | select(...), or reduce %s as $x (0; . + 1)", elements, elements, elements)
	}
	return advice
}

// onDisk matches the queries of rows that SQL answers on disk: an array, a function and a column.
var onDisk = regexp.MustCompile(`^\s*(?:((?:\.[A-Za-z_]\w*)+)\s*\|)?\s*(group_by|unique_by|sort_by|max_by|min_by)\(\s*(-?)\.([A-Za-z_]\w*)\s*\)`)

// sqlFor returns the advice to ask SQL, if that is easy to say, or "".
func sqlFor(id, query string) string {
	m := onDisk.FindStringSubmatch(query)
	if m == nil {
		return ""
	}
	if m[1] != "" {
		id += ":" + m[1]
	}
	sql := fmt.Sprintf(`SELECT "%s", count(*) FROM "%s" GROUP BY 1`, m[4], id)
	if !strings.HasSuffix(m[2], "p_by") && m[2] != "unique_by" {
		order := ""
		if m[3] == "-" || m[2] == "max_by" {
			order = " DESC"
		}
		sql = fmt.Sprintf(`SELECT * FROM "%s" ORDER BY "%s"%s LIMIT 10`, id, m[4], order)
	}
	return "Use sql_knowledge, which works on disk, with " + sql + ". Or: "
}

// largestPart returns the path of the array or object with the most elements, of those that do
// not end in the start of a document.
func largestPart(start io.Reader) (path []any) {
	dec := jsontext.NewDecoder(start, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for _, err := dec.ReadToken(); err == nil; _, err = dec.ReadToken() {
		if dec.StackDepth() == 0 { // several values
			return nil
		}
	}
	part, most := 1, int64(0)
	for level := 1; level <= dec.StackDepth(); level++ {
		if _, n := dec.StackIndex(level); n > most {
			part, most = level, n
		}
	}
	for name := range dec.StackPointer().Tokens() {
		if len(path)+1 == part {
			break
		}
		var key any = name
		if kind, _ := dec.StackIndex(len(path) + 1); kind == '[' {
			key, _ = strconv.Atoi(name)
		}
		path = append(path, key)
	}
	return path
}

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// pathText returns a path as jq writes it.
func pathText(path []any) string {
	text := ""
	for _, key := range path {
		name, byName := key.(string)
		switch quoted, _ := json.Marshal(key); { // of a string or an int
		case byName && identifier.MatchString(name):
			text += "." + name
		case text == "":
			text = ".[" + string(quoted) + "]"
		default:
			text += "[" + string(quoted) + "]"
		}
	}
	return cmp.Or(text, ".")
}
