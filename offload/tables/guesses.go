package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// guesses says where SQLite answers what other databases refuse or answer otherwise: a column beside an
// aggregate, a division of integers, a text in ORDER BY, and LIKE with other letters than those of ASCII.
func (d *database) guesses(query []token) (notes []string) {
	for i, t := range query {
		switch {
		case t.is(" select "):
			if bare := d.bare(selectAt(query, i)); bare != "" {
				if bare != "*" {
					bare = columnName(bare)
				}
				notes = append(notes, bare+" is neither aggregated nor in GROUP BY: its value is that of any one of the rows")
			}
		case t.is(" / ") && d.integer(query, i-1, true) && d.integer(query, i+1, false):
			notes = append(notes, "an integer divided by an integer has no fraction (7 / 2 is 3); multiply one of them by 1.0")
		case t.isText && at(query, i-1).is(" by ") && at(query, i-2).is(" order group ") && (i+1 == len(query) || at(query, i+1).is(orderEnds)):
			notes = append(notes, fmt.Sprintf("%s BY '%s' has the same text for each row; write a name without quotes or in double quotes",
				strings.ToUpper(at(query, i-2).text), t.text))
		case t.isText && at(query, i-1).is(" like ") && strings.IndexFunc(t.text, func(r rune) bool { return r > unicode.MaxASCII && unicode.IsLetter(r) }) >= 0 &&
			!at(query, i-2).is(" ) "):
			notes = append(notes, fmt.Sprintf("LIKE '%s' ignores the case of the letters of ASCII only; write lower(column) LIKE lower('%s')", t.text, t.text))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// orderEnds are the words and signs behind an element of ORDER BY or GROUP BY.
const orderEnds = " , ) ; asc desc limit having order collate nulls union except intersect "

// selection is a SELECT: its items, and the elements of its GROUP BY, as their tokens.
type selection struct{ items, groups [][]token }

// selectAt returns the SELECT that begins at a token. It leaves out the SELECTs within it.
func selectAt(query []token, start int) (s selection) {
	depth, list := len(query[start].within), &s.items
	var item []token
	end := func() {
		if len(item) > 0 && list != nil {
			*list = append(*list, item)
		}
		item = nil
	}
	for i := start + 1; i < len(query); i++ {
		t := query[i]
		if len(t.within) < depth || len(t.within) == depth && t.is(" union except intersect ) ; ") {
			break
		}
		if t.is(" ( ") && at(query, i+1).is(" select with ") {
			for inner := len(t.within); i+1 < len(query) && len(query[i+1].within) > inner; {
				i++
			}
			continue
		}
		switch top := len(t.within) == depth; {
		case top && t.is(" from "):
			end()
			list = nil
		case top && t.is(" by ") && at(query, i-1).is(" group "):
			end()
			list = &s.groups
		case top && t.is(" having order limit window "):
			end()
			list = nil
		case top && t.is(" , "):
			end()
		default:
			item = append(item, t)
		}
	}
	end()
	return s
}

const aggregates = " avg count group_concat json_group_array json_group_object max min string_agg sum total "

// bare returns a column, or "*", that a SELECT with an aggregate or a GROUP BY has in neither, or "". Beside one
// min or max, SQLite takes the row that has it.
func (d *database) bare(s selection) string {
	if len(s.items) == 0 {
		return ""
	}
	depth, found, extremes := len(s.items[0][0].within), 0, 0
	var grouped []string
	for _, group := range s.groups {
		if n, err := strconv.Atoi(group[0].text); err == nil && len(group) == 1 && n >= 1 && n <= len(s.items) {
			group = s.items[n-1]
		}
		for _, t := range group {
			grouped = append(grouped, t.name)
		}
	}
	free := ""
	for _, item := range s.items {
		alias := ""
		if n := len(item); n > 1 && item[n-1].name != "" && len(item[n-1].within) == depth && !at(item, n-2).is(" . ") {
			alias = item[n-1].name
		}
		if everything := item[len(item)-1]; everything.is(" * ") && len(everything.within) == depth && (len(item) == 1 || at(item, len(item)-2).is(" . ")) {
			free = "*"
		}
		for i, t := range item {
			called := at(item, i+1).is(" ( ")
			switch {
			case called && t.is(aggregates):
				if over := slices.IndexFunc(item[i:], func(o token) bool { return o.is(" over ") }); over >= 0 {
					continue // a window
				}
				if found++; t.is(" min max ") {
					extremes++
				}
			case t.name == "" || called || i > 0 && (at(item, i-1).is(" as ") || i == len(item)-1 && alias != "") || at(item, i+1).is(" . ") || slices.Contains(grouped, t.name),
				alias != "" && slices.Contains(grouped, alias), !d.isColumn(t.name):
			case !slices.ContainsFunc(t.within[depth:], func(f string) bool { return token{text: f}.is(aggregates + "over filter ") }) && free == "":
				free = t.name
			}
		}
	}
	if found == 0 && len(s.groups) == 0 || found == 1 && extremes == 1 {
		return ""
	}
	return free
}

func (d *database) isColumn(name string) bool { return d.typeOf(name) != "" }

// typeOf returns the type of a column. Several columns of the name have one if they agree.
func (d *database) typeOf(name string) (typ string) {
	for _, s := range d.schemas {
		for _, c := range s.Columns {
			if strings.EqualFold(c.Name, name) {
				if typ != "" && typ != c.Type {
					return "TEXT"
				}
				typ = c.Type
			}
		}
	}
	return typ
}

// integer reports whether the operand of a division is an integer: a number, a column, or count, or sum, min
// or max of a column. It begins at a token, or ends there if left; then all factors before it are integers too.
func (d *database) integer(query []token, i int, left bool) bool {
	t := at(query, i)
	if left && t.is(" ) ") {
		for inner := len(t.within); i > 0 && len(at(query, i).within) >= inner; {
			i--
		}
		i-- // from the bracket to the function
	}
	if !left && at(query, i+1).is(" . ") { // behind the name of a table
		i += 2
	}
	t = at(query, i)
	argument, typ := i+2, d.typeOf(t.name)
	if at(query, argument+1).is(" . ") {
		argument += 2
	}
	switch {
	case t.isNumber():
		if strings.Trim(t.text, "0123456789") != "" {
			return false
		}
	case !at(query, i+1).is(" ( "):
		if t.name == "" || typ != "INTEGER" {
			return false
		}
	case t.is(" count length "):
	case !t.is(" sum min max ") || !at(query, argument+1).is(" ) ") || d.typeOf(at(query, argument).name) != "INTEGER":
		return false
	}
	if before := at(query, i-1); left && before.is(" . ") {
		i -= 2
	}
	return !left || !at(query, i-1).is(" * / ") || d.integer(query, i-2, true)
}
