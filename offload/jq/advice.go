package jq

import (
	"fmt"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// A query that begins with the path of an array and goes on in one of these ways has an SQL form.
// The first group is the path, and may be empty.
var (
	grouped = lazyregexp.New(`^\s*(?:` + fields + `\s*\|)?\s*(group_by|unique_by|sort_by|max_by|min_by)\(\s*(-?)` + field + `\s*\)`)
	chosen  = lazyregexp.New(`^\s*` + fields + `?\.?(?:\[\]\s*\||\s*\|?\s*map\()\s*select\(\s*` + field +
		`\s*(==|!=|<=|>=|<|>)\s*("[^"\\']*"|-?\d+(?:\.\d+)?)\s*\)`)
	counted = lazyregexp.New(`^\s*` + fields + `?\s*\|?\s*length\s*$`)
	leading = lazyregexp.New(`^\s*\[?\s*` + fields)
)

const (
	field  = `\.([A-Za-z_]\w*)`
	fields = `((?:\.[A-Za-z_]\w*)+)`
)

// instead returns what to ask in place of a query that needs too much of a large artifact at once.
func instead(id, query string) string {
	return "Use sql_knowledge, which reads, groups, sorts and joins on disk, as in " + sqlFor(id, query) +
		"; without a query it lists the columns and the arrays. Or use grep_knowledge"
}

// sqlFor returns the SQL that answers a query, or one that shows the rows that it is about.
func sqlFor(id, query string) string {
	table := func(path string) string {
		if path != "" {
			path = ":" + path
		}
		return `"` + id + path + `"`
	}
	if m := grouped.FindStringSubmatch(query); m != nil {
		if m[2] == "group_by" || m[2] == "unique_by" {
			return fmt.Sprintf(`SELECT "%s", count(*) FROM %s GROUP BY 1`, m[4], table(m[1]))
		}
		order := ""
		if m[3] == "-" || m[2] == "max_by" {
			order = " DESC"
		}
		return fmt.Sprintf(`SELECT * FROM %s ORDER BY "%s"%s LIMIT 10`, table(m[1]), m[4], order)
	}
	if m := chosen.FindStringSubmatch(query); m != nil {
		operator, value := m[3], m[4]
		if operator == "==" {
			operator = "="
		}
		if value[0] == '"' {
			value = "'" + value[1:len(value)-1] + "'"
		}
		return fmt.Sprintf(`SELECT * FROM %s WHERE "%s" %s %s LIMIT 10`, table(m[1]), m[2], operator, value)
	}
	if m := counted.FindStringSubmatch(query); m != nil {
		return "SELECT count(*) FROM " + table(m[1])
	}
	path := ""
	if m := leading.FindStringSubmatch(query); m != nil {
		path = m[1]
	}
	return fmt.Sprintf("SELECT * FROM %s LIMIT 3", table(path))
}
