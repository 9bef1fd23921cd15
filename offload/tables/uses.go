package tables

import (
	"regexp"
	"slices"
	"strings"
)

// token is a name, a text or a sign of a query.
type token struct {
	name   string // without quotes, in lower case
	text   string // of a text in single quotes, or a sign in lower case
	isText bool
	within []string // the functions in whose arguments it is
}

var tokenForm = regexp.MustCompile("(?s)--[^\\n]*|/\\*.*?\\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\\[[^\\]]*\\]|[\\pL_][\\pL\\pN_$]*|\\.?\\d[\\w.]*|->>?|\\|\\||[<>=!]+|\\S")

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
	return !t.isText && t.text != "" && strings.Trim(t.text[:1], "0123456789.") == ""
}

// These are the functions, operators and words around a column that see it as a text, a number, or as
// true or false.
var (
	textFunctions = strings.Fields("char_length concat concat_ws format glob group_concat hex instr length like lower ltrim octet_length printf quote " +
		"replace rtrim string_agg substr substring trim unicode unistr_quote upper")
	textOperators = strings.Fields("like glob regexp match ||")
	comparisons   = strings.Fields("= == != <> < > <= >= is in between")
	ofNumbers     = strings.Fields("sum total avg abs round")
	arithmetic    = strings.Fields("+ - * / %")
	beforeTruth   = strings.Fields("where and or not on when having")
	behindTruth   = append(strings.Fields("and or ) then group order limit having union"), "")
)

// use is what a query does with a column.
type use struct {
	named, asText, asNumber bool
	ordered                 bool     // as the argument of min or max
	compared                []string // texts
}

// useOf returns what a query does with a column.
func useOf(query []token, column string) (u use) {
	names := []string{strings.ToLower(column)}
	at := func(i int) token {
		if i < 0 || i >= len(query) {
			return token{}
		}
		return query[i]
	}
	for i, t := range query { // a query may use another name before it gives it
		if t.name == names[0] && at(i+1).text == "as" && at(i+2).name != "" {
			names = append(names, at(i+2).name)
		}
	}
	for i, t := range query {
		if t.name == "" || !slices.Contains(names, t.name) {
			continue
		}
		u.named = u.named || t.name == names[0]
		before, next := i-1, i+1
		if at(before).text == "." { // behind the name of a table
			before -= 2
		}
		if at(next).text == "not" {
			next++
		}
		operator := at(next).text
		u.asText = u.asText || slices.Contains(textOperators, operator) || at(before).text == "||" ||
			slices.ContainsFunc(t.within, func(f string) bool { return slices.Contains(textFunctions, f) }) ||
			slices.Contains(t.within, "cast") && operator == "as" && slices.Contains([]string{"text", "char", "varchar"}, at(next+1).text)
		function := ""
		if at(before).text == "(" && at(next).text == ")" && len(t.within) > 0 {
			function = t.within[len(t.within)-1]
		}
		u.ordered = u.ordered || function == "min" || function == "max"
		if at(before).text == "not" || slices.Contains(beforeTruth, at(before).text) && slices.Contains(behindTruth, operator) || slices.Contains(ofNumbers, function) ||
			slices.Contains(arithmetic, operator) || slices.Contains(arithmetic, at(before).text) {
			u.asNumber = true
		}
		if slices.Contains(comparisons, at(before).text) && at(before-1).isText {
			u.compared = append(u.compared, at(before-1).text)
		}
		if !slices.Contains(comparisons, operator) {
			continue
		}
		for n := next + 1; at(n).isText || at(n).isNumber() || slices.Contains([]string{"(", ",", "not", "and"}, at(n).text); n++ {
			if at(n).isText {
				u.compared = append(u.compared, at(n).text)
			}
			u.asNumber = u.asNumber || at(n).isNumber()
			if (at(n).text == "and" || at(n).text == ",") && !at(n+1).isText && !at(n+1).isNumber() {
				break
			}
		}
	}
	return u
}
