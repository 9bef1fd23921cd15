package tables

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
)

// guesses says where SQLite answers what other databases refuse: a column beside an aggregate, a text in
// ORDER BY, and conditions that are the same for each row.
func (d *database) guesses(query []token, renames [][2]string) (notes []string) {
	for i, t := range query {
		switch {
		case t.is(" select "):
			if bare := d.bare(selectAt(query, i), renames); bare != "" {
				if bare != "*" {
					bare = columnName(bare)
				}
				notes = append(notes, bare+" is neither aggregated nor in GROUP BY: its value is that of any one of the rows")
			}
		case t.is(" * ") && at(query, i-1).is(" select ") && at(query, i-2).is(" all union except intersect ") && len(d.schemas) > 1 && d.reordered():
			notes = append(notes, "the tables have the same columns in another order, and SELECT * takes them by their places; write their names")
		case t.is(" by "):
			elements, _ := elementsAt(query, i+1)
			for _, element := range elements {
				if text := constant(element); text != "" {
					notes = append(notes, fmt.Sprintf("%s BY '%s' has the same text for each row; write a name without quotes or in double quotes",
						strings.ToUpper(at(query, i-1).text), text))
				}
			}
		}
	}
	for i := range query {
		if note := d.constantTruth(query, i); note != "" {
			notes = append(notes, note)
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// reordered reports whether the first and the last table have the same columns in another order.
func (d *database) reordered() bool {
	a, b := d.schemas[0].lower(), d.schemas[len(d.schemas)-1].lower()
	return !slices.Equal(a, b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

const (
	operators = " = == != <> < > <= >= in like between "
	within    = " -> ->> || = == != <> < > <= >= in like between "
)

// constantTruth says that a token is compared with NULL, is the name of a column in single quotes or a value
// in place of a condition, or that COUNT has a condition, and otherwise returns "".
func (d *database) constantTruth(query []token, i int) string {
	t, before, next := query[i], at(query, i-1), at(query, i+1)
	value := at(query, i+2).isText || at(query, i+2).isNumber()
	switch {
	case t.is(" null ") && before.is(" = == != <> < > <= >= "):
		return "nothing equals NULL; write IS NULL or IS NOT NULL"
	case t.isText && d.isColumn(t.text, nil) && (next.is(operators) && value && !before.is(within) ||
		before.is(" ( ") && next.is(" ) ") && token{text: t.function()}.is(aggregates)):
		return fmt.Sprintf("'%s' is a text and not the column; write the name without quotes or in double quotes", t.text)
	case (t.isText || t.isNumber()) && before.is(" or ") && (next.text == "" && !next.isText || next.is(behindTruth)):
		return fmt.Sprintf("OR %s is no comparison; write the column again, as in c = 'a' OR c = 'b', or c IN ('a', 'b')", t.text)
	case t.is(" -> ") && next.isText && at(query, i+2).is(comparisons) && (at(query, i+3).isText || at(query, i+3).isNumber()):
		return fmt.Sprintf("-> gives JSON, such as '\"a\"' with its quotes; compare ->>'%s'", next.text)
	case t.is(" strftime ") && strings.Contains(" %m %d %H %M %S ", " "+at(query, i+2).text+" "):
		end := closing(query, i)
		if text := at(query, end+2); at(query, end+1).is(" = == != <> ") && text.isText && len(text.text) == 1 {
			return fmt.Sprintf("strftime('%s') gives two digits: '0%s', not '%s'", query[i+2].text, text.text, text.text)
		}
	case t.is(" count ") && next.is(" ( "):
		compares := false
		for _, part := range query[i+2:] {
			if len(part.within) <= len(t.within) || part.is(" case iif if nullif select null distinct ") {
				return ""
			}
			if compares = compares || part.is(operators); part.is(" ) ") && len(part.within) == len(t.within)+1 {
				break
			}
		}
		if compares {
			return "COUNT counts each row whose condition is true or false; to count where it is true, use SUM"
		}
	}
	return ""
}

// constant returns the text of an element of ORDER BY that has no name, or "".
func constant(element []token) (text string) {
	for _, t := range element {
		switch {
		case t.isText:
			text = t.text
		case t.name != "" && !t.is(" asc desc collate nocase binary rtrim nulls first last "):
			return ""
		}
	}
	return text
}

// selection is a SELECT: the elements of its clauses, as their tokens.
type selection struct{ items, groups, having, orders [][]token }

// selectAt returns the SELECT that begins at a token.
func selectAt(query []token, i int) (s selection) {
	for {
		clause := query[i]
		if i++; at(query, i).is(" by ") {
			i++
		}
		var elements [][]token
		switch elements, i = elementsAt(query, i); clause.text {
		case "select":
			s.items = elements
			if len(elements) > 0 && at(elements[0], 0).is(" distinct all ") {
				s.items[0] = elements[0][1:]
			}
		case "group":
			s.groups = elements
		case "having":
			s.having = elements
		case "order":
			s.orders = elements
		}
		if next := at(query, i); len(next.within) != len(clause.within) || !next.is(clauses) {
			return s
		}
	}
}

const clauses = " from where group having order limit window "

// elementsAt returns what commas separate, from a token to the end of the clause. It leaves out the SELECTs within it.
func elementsAt(query []token, start int) (elements [][]token, end int) {
	depth := len(at(query, start).within)
	for end = start; end < len(query); end++ {
		t := query[end]
		top := len(t.within) == depth
		if len(t.within) < depth || top && t.is(" union except intersect ) ; rows range groups"+clauses) {
			break
		}
		if top && t.is(" , ") || len(elements) == 0 {
			elements = append(elements, nil)
		}
		if t.is(" ( ") && at(query, end+1).is(" select with ") {
			for inner := len(t.within); end+1 < len(query) && len(query[end+1].within) > inner; {
				end++
			}
		} else if last := len(elements) - 1; !top || !t.is(" , ") {
			elements[last] = append(elements[last], t)
		}
	}
	return elements, end
}

const aggregates = " avg count group_concat json_group_array json_group_object max min string_agg sum total "

// bare returns a column, or "*", that a SELECT with an aggregate or a GROUP BY has in neither, or "". Beside one
// min or max, SQLite takes the row that has it.
func (d *database) bare(s selection, renames [][2]string) string {
	found, extremes := 0, 0
	var grouped, aliases []string
	for _, group := range s.groups {
		if len(group) == 1 {
			if n, err := strconv.Atoi(group[0].text); err == nil && n >= 1 && n <= len(s.items) {
				group = s.items[n-1]
			}
		}
		for _, t := range group {
			grouped = append(grouped, t.name)
		}
	}
	for _, item := range s.items {
		aliases = append(aliases, aliasOf(item))
	}
	free := ""
	for n, item := range slices.Concat(s.items, s.having, s.orders) {
		if len(item) == 0 {
			continue
		}
		depth, end, own := len(item[0].within), len(item), n < len(s.items)
		if own && item[end-1].is(" * ") && len(item[end-1].within) == depth && (end == 1 || at(item, end-2).is(" . ")) {
			free = "*"
		}
		if own && aliases[n] != "" {
			end--
		}
		for i, t := range item[:end] {
			called := at(item, i+1).is(" ( ")
			switch {
			case called && t.is(aggregates):
				if over := slices.IndexFunc(item[i:], func(o token) bool { return o.is(" over ") }); over >= 0 {
					continue // a window
				}
				if found++; t.is(" min max ") {
					extremes++
				}
			case t.name == "" || called || i > 0 && at(item, i-1).is(" as ") || at(item, i+1).is(" . ") || slices.Contains(grouped, t.name),
				own && aliases[n] != "" && slices.Contains(grouped, aliases[n]), !own && slices.Contains(aliases, t.name), !d.isColumn(t.name, renames):
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

// aliasOf returns the name that an item of a SELECT is given, or "".
func aliasOf(item []token) string {
	n := len(item)
	if n < 2 || len(item[n-1].within) != len(item[0].within) || at(item, n-2).is(" . ") || item[n-1].is(" end ") {
		return ""
	}
	return item[n-1].name
}

func (d *database) isColumn(name string, renames [][2]string) bool {
	return slices.ContainsFunc(renames, func(r [2]string) bool { return r[1] == name }) || slices.ContainsFunc(d.schemas, func(s Schema) bool {
		return slices.ContainsFunc(s.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
	})
}

// aboutExtracts returns notes about values of JSON that a query orders or compares as numbers, and of which some
// are numbers in strings.
func (d *database) aboutExtracts(ctx context.Context, query []token) (notes []string) {
	asNumber := func(start, end int) bool {
		function := token{text: query[start].function()}
		return at(query, end+1).is(numeric) && at(query, end+2).isNumber() || at(query, start-1).is(numeric) && at(query, start-2).isNumber() ||
			at(query, start-1).is(" ( ") && at(query, end+1).is(" ) ") && function.is(" min max ") || at(query, start-1).is(" by ") && at(query, start-2).is(" order ")
	}
	for i := range query {
		for n, s := range d.schemas {
			column := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Type == "JSON" && strings.ToLower(c.Name) == query[i].name })
			if column < 0 {
				continue
			}
			start, end, value := i, i, columnName(s.Columns[column].Name)
			if at(query, i-1).is(" . ") {
				start -= 2
			}
			if at(query, start-1).is(" ( ") && at(query, start-2).is(" json_extract ") && at(query, i+2).isText && at(query, i+3).is(" ) ") {
				start, end, value = start-2, i+3, fmt.Sprintf("json_extract(%s, %s)", value, literal(query[i+2].text))
			}
			for ; at(query, end+1).is(" -> ->> ") && at(query, end+2).isText; end += 2 {
				value += query[end+1].text + literal(query[end+2].text)
			}
			if end == i || at(query, end-1).is(" -> ") {
				continue
			}
			if text := at(query, end+2); at(query, end+1).is(comparisons) && text.isText {
				notes = append(notes, d.almost(ctx, n, value, []string{text.text})...)
			}
			alias := at(query, end+1)
			if alias.is(" as ") {
				alias = at(query, end+2)
			}
			used := asNumber(start, end)
			for j, t := range query {
				used = used || alias.name != "" && t.name == alias.name && asNumber(j, j)
			}
			var text string
			find := fmt.Sprintf("SELECT v FROM (SELECT %s AS v FROM s%d.data) WHERE typeof(v) = 'text' AND v GLOB '[-0-9]*' LIMIT 1", value, n+1)
			if used && d.conn.QueryRowContext(ctx, find).Scan(&text) == nil && (describe.IsInteger(text) || describe.IsReal(text)) {
				notes = append(notes, fmt.Sprintf("%s gives texts such as '%s', which sort by their characters and never equal numbers; write CAST(%s AS REAL)", value, text, value))
			}
		}
	}
	return notes
}

// almost says that cells equal no text of a query, but would without regard to case, spaces, "_" and "-".
func (d *database) almost(ctx context.Context, table int, value string, texts []string) []string {
	var all, alike []string
	bare, longest := strings.NewReplacer("_", "", "-", "", " ", ""), 0
	for _, text := range texts {
		all, alike, longest = append(all, literal(text)), append(alike, literal(bare.Replace(text))), max(longest, len(text))
		if describe.IsBoolean(text) {
			alike = append(alike, literal(text[:1])) // of psql
		}
	}
	n, found := 0, ""
	find := fmt.Sprintf("SELECT count(*), min(v) FROM (SELECT %s AS v FROM s%d.data) WHERE length(v) <= %d AND v NOT IN (%s) AND replace(replace("+
		"replace(v, '_', ''), '-', ''), ' ', '') COLLATE NOCASE IN (%s)", value, table+1, longest+4, strings.Join(all, ", "), strings.Join(alike, ", "))
	if len(texts) > 0 && d.conn.QueryRowContext(ctx, find).Scan(&n, &found) == nil && n > 0 {
		return []string{fmt.Sprintf("%s: %d cells such as '%s' are written in another way than %s, and do not equal it", value, n, found, all[0])}
	}
	return nil
}

// literal returns a text for SQL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// numeric are the comparisons with a number.
const numeric = " = == != <> < > <= >= "

// aboutDivisions returns a note if the answer would be another one if each quotient of integers had its fraction.
func (d *database) aboutDivisions(ctx context.Context, req request, res *Result) string {
	divides := false
	req.SQL = tokenForm.ReplaceAllStringFunc(req.SQL, func(part string) string {
		if divides = divides || part == "/"; part == "/" {
			return "*1.0/"
		}
		return part
	})
	if !divides {
		return ""
	}
	exact := &Result{}
	same := func(a, b any) bool {
		return strings.TrimSuffix(fmt.Sprint(a), ".0") == strings.TrimSuffix(fmt.Sprint(b), ".0")
	}
	equal := func(a, b []any) bool { return slices.EqualFunc(a, b, same) }
	err := d.collect(ctx, req, exact)
	if err == nil && (exact.Total == res.Total || exact.AtLeast) && slices.EqualFunc(exact.Rows, res.Rows, equal) {
		return ""
	}
	return "an integer divided by an integer has no fraction (7 / 2 is 3); multiply one of them by 1.0"
}
