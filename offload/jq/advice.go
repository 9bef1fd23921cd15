package jq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/itchyny/gojq"
)

// onDisk matches the queries of rows that SQL answers easily: an array, a function and a column.
var onDisk = regexp.MustCompile(`^\s*(?:((?:\.[A-Za-z_]\w*)+)\s*\|)?\s*(group_by|unique_by|sort_by|max_by|min_by)\(\s*(-?)\.([A-Za-z_]\w*)\s*\)`)

// instead returns what to ask in place of a query that needs too much of a large document at once.
func instead(id, query string) string {
	sql := fmt.Sprintf(`SELECT * FROM "%s" LIMIT 3`, id)
	if m := onDisk.FindStringSubmatch(query); m != nil {
		if m[1] != "" {
			id += ":" + m[1]
		}
		sql = fmt.Sprintf(`SELECT "%s", count(*) FROM "%s" GROUP BY 1`, m[4], id)
		if m[2] != "group_by" && m[2] != "unique_by" {
			order := ""
			if m[3] == "-" || m[2] == "max_by" {
				order = " DESC"
			}
			sql = fmt.Sprintf(`SELECT * FROM "%s" ORDER BY "%s"%s LIMIT 10`, id, m[4], order)
		}
	}
	elements := ".[]"
	if parsed, err := gojq.Parse(query); err == nil {
		elements = pathText(planOf(parsed).path) + "[]"
	}
	return fmt.Sprintf("Use sql_knowledge, which groups, sorts and joins on disk, as in %s. Or let jq read one element after the other, as in %s | select(...), or [%s | .name] | length", sql, elements, elements)
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
