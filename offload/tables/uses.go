package tables

import (
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// token is a name, a text or a sign of a query.
type token struct {
	name   string // without quotes, in lower case
	text   string // of a text in single quotes, or a sign in lower case
	isText bool
	within []string // the functions in whose arguments it is
}

var tokenForm = lazyregexp.New("(?s)--[^\\n]*|/\\*.*?\\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\\[[^\\]]*\\]|" +
	"[\\pL_][\\pL\\pN_$]*|\\.?\\d[\\w.]*|->>?|\\|\\||[<>=!]+|\\S")

// tokens returns the tokens of a query.
func tokens(query string) (all []token) {
	var open []string
	for _, part := range tokenForm.FindAllString(query, -1) {
		t := token{text: strings.ToLower(part), within: slices.Clone(open)}
		switch first := part[0]; {
		case strings.HasPrefix(part, "--"), strings.HasPrefix(part, "/*"):
			continue
		case first == '\'':
			t.text, t.isText = strings.ReplaceAll(part[1:max(len(part)-1, 1)], "''", "'"), true
		case len(part) > 1 && strings.IndexByte("\"`[", first) >= 0:
			t.name = strings.ReplaceAll(t.text[1:len(t.text)-1], `""`, `"`)
		case first == '(':
			function := ""
			if len(all) > 0 {
				function = all[len(all)-1].name
			}
			open = append(open, function)
		case first == ')' && len(open) > 0:
			open = open[:len(open)-1]
		case first == '_' || first >= 'A':
			t.name = t.text
		}
		all = append(all, t)
	}
	return all
}

func (t token) isNumber() bool {
	return !t.isText && t.text != "" && strings.Trim(t.text[:1], "0123456789.") == "" || t.is(" true false ")
}

// is reports whether a token is one of several words. It is not a text in quotes.
func (t token) is(words string) bool {
	return !t.isText && t.text != "" && strings.Contains(words, " "+t.text+" ")
}

// function returns the innermost function in whose arguments a token is.
func (t token) function() string {
	if len(t.within) == 0 {
		return ""
	}
	return t.within[len(t.within)-1]
}

// textAsNumber returns a function whose result is a text that a query compares with a number, or "".
func textAsNumber(query []token) string {
	results := map[string]string{}  // the functions by the names of their results
	for n := range 2 * len(query) { // a query may use a name before it gives it
		i := n % len(query)
		end, function := i, results[query[i].name]
		if query[i].is(textResults) && at(query, i+1).is(" ( ") {
			function, end = query[i].name, closing(query, i)
			if name := at(query, end+2).name; name != "" && at(query, end+1).is(" as ") {
				results[name] = function
			}
		}
		right := at(query, end+2)
		if right.is(" ( ") {
			right = at(query, end+3)
		}
		if function != "" && (at(query, end+1).is(comparisons) && right.isNumber() || at(query, i-1).is(comparisons) && at(query, i-2).isNumber()) {
			return function
		}
	}
	return ""
}

// closing returns the number of the bracket that ends the arguments of a function.
func closing(query []token, i int) int {
	end := i
	for end < len(query) && (!query[end].is(" ) ") || len(query[end].within) > len(query[i].within)+1) {
		end++
	}
	return end
}

// at returns the token with a number, or none.
func at(query []token, i int) (t token) {
	if i >= 0 && i < len(query) {
		t = query[i]
	}
	return t
}

// These are the functions, operators and words around a column that see it as a text, a number, or as
// true or false.
const (
	textFunctions = " char_length concat concat_ws format glob group_concat hex instr length like lower ltrim octet_length printf quote " +
		"replace rtrim string_agg substr substring trim unicode unistr_quote upper "
	signs       = " + - * / % "
	comparisons = " = == != <> < > <= >= is in between "
	textResults = " char concat concat_ws date datetime format group_concat hex lower ltrim printf quote replace rtrim strftime string_agg substr " +
		"substring time trim unistr_quote upper "
	beforeTruth = " where and or not on when having "
	behindTruth = " and or ) then group order limit having union "
)

// use is what a query does with a column.
type use struct {
	named, asText, asNumber bool
	ordered                 bool     // as the argument of min or max
	asDate                  bool     // by the functions for dates
	asNull                  bool     // where it matters whether it is NULL
	unequal, notIn          bool     // by <> and NOT, and as what NOT IN selects
	modulo                  bool     // by %
	sorts                   bool     // in ORDER BY, MIN and MAX, and by < and >
	first, added, filtered  bool     // in the order of a LIMIT, to another column in a sum, and by a comparison
	clock                   string   // the function whose result it is compared with
	compared                []string // texts
	days                    []string // those of them that must equal a time, or be one that is later
}

// passing are the functions whose result is the value of an argument.
const passing = " min max coalesce ifnull iif nullif first_value last_value nth_value lag lead "

// renames returns the columns that a query gives other names, each with its other name.
func (d *database) renames(query []token) (all [][2]string) {
	for i, t := range query {
		if !t.is(" select ") {
			continue
		}
		var names [][]token // of WITH t(a, b) AS (SELECT
		before := i - 1
		for at(query, before).is(" ( as not materialized ") {
			before--
		}
		if before < i-2 && query[before].is(" ) ") {
			for before > 0 && len(query[before-1].within) >= len(query[before].within) {
				before--
			}
			names, _ = elementsAt(query, before)
		}
		for n, item := range selectAt(query, i).items {
			alias := aliasOf(item)
			if n < len(names) {
				alias = names[n][0].name
			}
			if alias == "" || len(item) == 0 {
				continue
			}
			depth := len(item[0].within)
			for _, t := range item {
				if t.name != "" && !slices.ContainsFunc(t.within[depth:], func(f string) bool { return f != "" && !(token{text: f}).is(passing) }) {
					all = append(all, [2]string{t.name, alias})
				}
			}
			if item[0].is(" * ") && len(d.schemas) > 0 {
				for n, c := range d.schemas[0].Columns[:min(len(names), len(d.schemas[0].Columns))] {
					all = append(all, [2]string{strings.ToLower(c.Name), names[n][0].name})
				}
			}
		}
	}
	return all
}

// useOf returns what a query does with a column, also by other names.
func useOf(query []token, column string, renames [][2]string) (u use) {
	names := []string{strings.ToLower(column)}
	at := func(i int) token { return at(query, i) }
	for n := 0; n < len(names); n++ {
		for _, r := range renames {
			if r[0] == names[n] && !slices.Contains(names, r[1]) {
				names = append(names, r[1])
			}
		}
	}
	order := -1 // the depth of the ORDER BY that a token is in
	for i, t := range query {
		if t.is(" by ") && at(i-1).is(" order ") {
			order = len(t.within)
		} else if len(t.within) < order || t.is(clauses) {
			order = -1
		}
		if t.name == "" || !slices.Contains(names, t.name) {
			continue
		}
		u.named = u.named || t.name == names[0]
		left, next := i-1, i+1
		if at(left).is(" . ") { // behind the name of a table
			left -= 2
		}
		negated := at(next).is(" not ")
		if negated {
			next++
		}
		before, operator, argument := at(left), at(next), token{}
		u.unequal = u.unequal || negated && operator.is(" in like between glob ") || operator.is(" != <> ") || before.is(" != <> not ")
		u.filtered = u.filtered || operator.is(operators) || before.is(operators)
		u.added = u.added || token{text: t.function()}.is(" sum total ") && (operator.is(" + ") && at(next+1).name != "" || before.is(" + ") && at(left-1).name != "")
		if end := next; before.is(" by ") && at(left-1).is(" order ") && !operator.is(" desc ") {
			for end < len(query) && !query[end].is(" limit nulls ") {
				end++
			}
			u.first = u.first || len(t.within) == 0 && at(end).is(" limit ") && (operator.is(" asc , limit "))
		}
		for n := next + 1; operator.is(comparisons) && n < next+4; n++ {
			if at(n).is(" datetime current_timestamp ") {
				u.clock = at(n).text
			}
		}
		if chosen := left; before.is(" select distinct ") {
			for at(chosen).is(" ( select distinct ") {
				chosen--
			}
			u.notIn = u.notIn || at(chosen).is(" in ") && at(chosen-1).is(" not ")
		}
		for _, function := range t.within {
			u.asText = u.asText || !operator.is(" -> ->> ") && !strings.HasPrefix(t.function(), "json_") && token{text: function}.is(textFunctions)
			u.asDate = u.asDate || token{text: function}.is(" date datetime julianday strftime time timediff unixepoch ")
			if before.is(" ( ") && operator.is(" ) ") {
				argument.text = function // the last one
			}
		}
		u.asText = u.asText || operator.is(" like glob regexp match || ") || before.is(" || ") || operator.is(" as ") && at(next+1).is(" text char varchar ")
		u.asNull = u.asNull || argument.is(" count ") || before.is(" ( ") && (token{text: t.function()}).is(" coalesce ifnull ") ||
			operator.is(" is ") && (at(next+1).is(" null ") || at(next+2).is(" null ")) || operator.is(" isnull notnull ") || at(next).is(" null ")
		u.modulo = u.modulo || operator.is(" % ") || before.is(" % ")
		u.ordered = u.ordered || argument.is(" min max ")
		u.sorts = u.sorts || u.ordered || order >= 0 || operator.is(" < > <= >= between ") || before.is(" < > <= >= ")
		u.asNumber = u.asNumber || argument.is(" sum total avg abs round ") || argument.is(" min max ") && (at(next+1).is(signs) || at(left-2).is(signs)) ||
			operator.is(signs) || before.is(signs) || before.is(" ( ") && operator.is(" , ") && token{text: t.function()}.is(" if iif ") ||
			before.is(beforeTruth) && (operator.text == "" || operator.is(behindTruth))
		if before.is(comparisons) && at(left-1).isText {
			u.compared = append(u.compared, at(left-1).text)
		}
		for n := next + 1; operator.is(comparisons) && (at(n).isText || at(n).isNumber() || at(n).is(" ( , not and ")); n++ {
			if at(n).isText {
				u.compared = append(u.compared, at(n).text)
				if operator.is(" = == is in <= > between ") && (!operator.is(" between ") || at(n-1).is(" and ")) {
					u.days = append(u.days, at(n).text)
				}
			}
			u.asNumber = u.asNumber || at(n).isNumber()
			if at(n).is(" and , ") && !at(n+1).isText && !at(n+1).isNumber() {
				break
			}
		}
	}
	return u
}
