package jq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// watch notes where a query compares, sorts or adds values of which a reader expects something else: in jq, "10" is
// less than "9", each string is greater than each number, and null is less than both.
type watch struct {
	query        string
	kinds, notes []string
}

// Functions of the rewritten query, and the definitions that call them in place of those of jq.
const (
	compareFunc = "_compare"
	watchFunc   = "_watch"
	exactFunc   = "_isinteger"
	truthFunc   = "_true"
	partFunc    = "_contains"

	watched = `def _sort: sort; def sort: _watch("sort") | _sort; def sort_by(f): _sort_by(map([f]) | _watch("sort_by"));
		def _least: min; def min: _watch("min") | _least; def min_by(f): _min_by(map([f]) | _watch("min_by"));
		def _most: max; def max: _watch("max") | _most; def max_by(f): _max_by(map([f]) | _watch("max_by"));
		def _once: unique; def unique: _watch("unique") | _once; def unique_by(f): _unique_by(map([f]) | _watch("unique_by"));
		def group_by(f): _group_by(map([f]) | _watch("group_by"));
		def _sum: add; def add: _watch("add") | _sum; def add(f): [f] | add;
		def _mean: _watch("mean") | add;
		def select(f): if f | _true then . else empty end; def _no: not; def not: _true | _no;
		def _has($x): contains($x); def contains($x): _contains($x) | _has($x); def inside($x): . as $v | $x | contains($v);
		def _plus($r; $l): [$l, $r] | _watch("+") | $l + $r; def _times($r; $l): [$l, $r] | _watch("*") | $l * $r;
		def IN(s): any(_compare("IN"; "=="; .; s); .); def IN(src; s): any(_compare("IN"; "=="; src; s); .);
		def _floor: floor; def floor: if _isinteger then . else _floor end;
		def _ceil: ceil; def ceil: if _isinteger then . else _ceil end;
		def _round: round; def round: if _isinteger then . else _round end;
		def _trunc: trunc; def trunc: if _isinteger then . else _trunc end;`
)

// calls returns the calls of a function without arguments.
func calls(query *gojq.Query, name string) (list []*gojq.Func) {
	each(reflect.ValueOf(query), func(node any) bool {
		if f, ok := node.(*gojq.Func); ok && f.Name == name && len(f.Args) == 0 {
			list = append(list, f)
		}
		return true
	})
	return list
}

// inView replaces each operator that compares or adds. As in jq, the outer loop is that over the values of the right side.
func inView(query *gojq.Query) {
	each(reflect.ValueOf(query), func(node any) bool {
		if branch, ok := node.(*gojq.If); ok {
			branch.Cond = condition(branch.Cond)
			for _, other := range branch.Elif {
				other.Cond = condition(other.Cond)
			}
		}
		q, ok := node.(*gojq.Query)
		if !ok {
			return true
		}
		if q.Op == gojq.OpAnd || q.Op == gojq.OpOr {
			q.Left, q.Right = condition(q.Left), condition(q.Right)
		}
		f := &gojq.Func{Args: []*gojq.Query{q.Right, q.Left}}
		switch {
		case q.Op == gojq.OpAdd && !isLiteral(q.Left) && !isLiteral(q.Right): // a number and a string cannot be added
			f.Name = "_plus"
		case q.Op == gojq.OpMul:
			f.Name = "_times"
		case q.Op == gojq.OpDiv && len(calls(q.Right, "length")) > 0:
			for _, add := range calls(q.Left, "add") {
				add.Name = "_mean"
			}
			return true
		case q.Op >= gojq.OpEq && q.Op <= gojq.OpLe:
			f.Name = compareFunc
			f.Args = []*gojq.Query{constant(tools.Excerpt(q.String(), 60)), constant(q.Op.String()), q.Left, q.Right}
		default:
			return true
		}
		*q = gojq.Query{Meta: q.Meta, Imports: q.Imports, FuncDefs: q.FuncDefs, Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: f}}
		return true
	})
}

// condition returns a query whose value is true or false for another one.
func condition(q *gojq.Query) *gojq.Query {
	if q.Op >= gojq.OpEq && q.Op <= gojq.OpOr {
		return q
	}
	f := &gojq.Func{Name: truthFunc}
	if isLiteral(q) {
		f.Args = []*gojq.Query{q}
	}
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: f}}}
}

func isLiteral(q *gojq.Query) bool {
	return q.Term != nil && (q.Term.Type == gojq.TermTypeNumber || q.Term.Type == gojq.TermTypeString)
}

func constant(text string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeString, Str: &gojq.String{Str: text}}}
}

// options returns the functions that watch a query.
func (w *watch) options() []gojq.CompilerOption {
	return []gojq.CompilerOption{
		gojq.WithFunction(compareFunc, 4, 4, func(_ any, args []any) any { return w.compare(args[0].(string), args[1].(string), args[2], args[3]) }),
		gojq.WithFunction(watchFunc, 1, 1, func(v any, args []any) any {
			if list, ok := v.([]any); ok {
				w.list(args[0].(string), list)
			}
			return v
		}),
		gojq.WithFunction(truthFunc, 0, 1, func(v any, args []any) any {
			if w.truth(v); len(args) > 0 {
				w.note("constant", "the condition %s is always true; write the comparison again, as in .a == 1 or .a == 2", short(v))
			}
			return v
		}),
		gojq.WithFunction(partFunc, 1, 1, func(v any, args []any) any { w.part(v, args[0]); return v }),
		gojq.WithFunction(exactFunc, 0, 0, func(v any, _ []any) any {
			switch v := v.(type) {
			case int, *big.Int:
				return true
			case json.Number:
				return strings.Trim(v.String(), "-0123456789") == ""
			}
			return false
		}),
	}
}

// note adds a note, unless there is one of its kind.
func (w *watch) note(kind, format string, args ...any) {
	if !slices.Contains(w.kinds, kind) {
		w.kinds, w.notes = append(w.kinds, kind), append(w.notes, fmt.Sprintf(format, args...))
	}
}

// compare returns what an operator does.
func (w *watch) compare(query, operator string, l, r any) (result bool) {
	order := gojq.Compare(l, r)
	switch operator {
	case "==":
		result = order == 0
	case "!=":
		result = order != 0
	case "<":
		result = order < 0
	case "<=":
		result = order <= 0
	case ">":
		result = order > 0
	case ">=":
		result = order >= 0
	}
	typ, other := gojq.TypeOf(l), gojq.TypeOf(r)
	if order != 0 && (operator == "==" || operator == "!=") {
		w.almost(query, l, r)
	}
	if typ == other && typ != "string" {
		return result
	}
	orders := operator[0] == '<' || operator[0] == '>'
	a, isA := numberOf(l)
	b, isB := numberOf(r)
	switch {
	case isA && isB && typ != other && (orders || a == b):
		w.note("types", "%s compares %s with %s: in jq a string never equals a number and is greater than each; write (.key|tonumber)", query, short(l), short(r))
	case isA && isB && typ == other && orders && (a < b) != (order < 0):
		w.note("characters", "%s compares the strings %s and %s by their characters; to compare numbers, write (.key|tonumber)", query, short(l), short(r))
	case orders && typ == other && (isDate(l) || isDate(r) || describe.Misorders(l.(string), r.(string))):
		w.note("characters", "%s compares %s and %s by their characters, not as dates or numbers", query, short(l), short(r))
	case orders && result && typ != other && (typ != "boolean" || other != "boolean"):
		w.note("order", "%s is true for %s and %s: jq sorts null (also of a missing key), then booleans, numbers and strings; "+
			"leave others out with numbers or strings", query, short(l), short(r))
	}
	return result
}

// almost notes values that are not equal, and that a reader may take for the same: "true" and true, "" and null, "Open" and "open".
func (w *watch) almost(query string, l, r any) {
	a, isA := l.(string)
	b, isB := r.(string)
	switch {
	case isA && isB:
		if len(a) == len(b) && strings.EqualFold(a, b) && !(strings.Contains(w.query, short(a)) && strings.Contains(w.query, short(b))) {
			w.note("case", "%s compares %s with %s, which are not equal; to ignore the case, write (.key|ascii_downcase)", query, short(l), short(r))
		}
	case isA != isB && ((l == nil || r == nil) && a+b == "" || (l == true || r == true) && a+b == "true" || (l == false || r == false) && a+b == "false"):
		w.note("almost", "%s compares %s with %s, which are not equal", query, short(l), short(r))
	}
}

// falsy are the strings that mean false.
const falsy = " false no off 0 n f none null "

// truth notes a condition that is true in jq and false elsewhere.
func (w *watch) truth(v any) {
	empty := false
	switch v := v.(type) {
	case nil, bool:
		return
	case string:
		empty = v == "" || strings.Contains(falsy, " "+strings.ToLower(v)+" ")
	case []any:
		empty = len(v) == 0
	case map[string]any:
		empty = len(v) == 0
	default:
		n, _ := numberOf(v)
		empty = n == 0
	}
	if empty {
		w.note("truth", "a condition is %s, which is true in jq: all but false and null are", short(v))
	}
}

// part notes that a list contains a string only as a part of another one.
func (w *watch) part(v, sought any) {
	list, _ := v.([]any)
	texts, _ := sought.([]any)
	for _, text := range texts {
		part, ok := text.(string)
		if !ok || slices.Contains(list, text) {
			continue
		}
		for _, element := range list {
			if whole, _ := element.(string); strings.Contains(whole, part) {
				w.note("part", "contains and inside find %s in %s: they look for parts of strings; to find whole ones, write any(. == %s)",
					short(part), short(whole), short(part))
			}
		}
	}
}

// isDate reports whether a value is a date that does not sort as text: 31/12/2024, 12/31/2024, 31.12.2024, Jan 31, 2024.
func isDate(v any) bool {
	text, _ := v.(string)
	if len(text) < 8 || !strings.ContainsAny(text[1:4], "/., ") {
		return false
	}
	_, ok := describe.ParseDate(text)
	return ok
}

// numberOf returns the number that a value is, or has as its text.
func numberOf(v any) (f float64, ok bool) {
	text, isText := v.(string)
	if !isText {
		if gojq.TypeOf(v) != "number" {
			return 0, false
		}
		text = short(v)
	}
	if text == "" || text[0] > '9' { // such as inf
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func short(v any) string {
	text, _ := gojq.Marshal(v)
	return tools.Excerpt(string(text), 40)
}

// list notes what a function of a list does with its values. Those of a function such as sort_by are arrays of keys.
func (w *watch) list(function string, values []any) {
	if !strings.HasSuffix(function, "_by") {
		w.column(function, values)
		return
	}
	for place := 0; ; place++ {
		var column []any
		for _, v := range values {
			if keys, _ := v.([]any); place < len(keys) {
				column = append(column, keys[place])
			}
		}
		if column == nil {
			return
		}
		w.column(function, column)
	}
}

// column notes what a function does with values of several types, and with numbers in strings.
func (w *watch) column(function string, values []any) {
	var number, null, numeric, other any // one of each
	var texts, numbered []string
	var form [40]byte
	for _, v := range values {
		switch text, isText := v.(string); {
		case v == nil:
			null = "null"
		case !isText:
			if gojq.TypeOf(v) == "number" {
				number = v
			}
		default:
			if _, ok := numberOf(v); !ok {
				if other = v; len(numbered) < maxSorted && len(describe.AppendForm(form[:0], text)) > 0 {
					numbered = append(numbered, text)
				}
				continue
			}
			numeric = v
			if len(texts) < maxSorted {
				texts = append(texts, text)
			}
		}
	}
	if function == "mean" {
		if null != nil && number != nil {
			w.note("mean", "add leaves out null (also of a missing key), and length counts it; for a mean of the others, write map(numbers) before both")
		}
		return
	}
	sums := function == "add" || function == "+" || function == "*"
	orders := !sums && function != "group_by" && function != "unique" && function != "unique_by"
	slices.Sort(numbered)
	misordered := len(numbered) > 1 && !slices.ContainsFunc(numbered, func(text string) bool { return !amount.MatchString(text) })
	for i := 1; orders && i < len(numbered) && !misordered; i++ {
		if misordered = describe.Misorders(numbered[i-1], numbered[i]); misordered {
			other = numbered[i]
		}
	}
	switch slices.Sort(texts); {
	case sums && numeric != nil && other == nil && (number != nil || len(texts) > 1):
		w.note("sum", "%s joins or repeats strings such as %s; to calculate, write (.key|tonumber)", function, short(numeric))
	case sums:
	case number != nil && numeric != nil:
		w.note("types", "%s has numbers such as %s and strings such as %s: in jq a string never equals a number and is greater than each; write (.key|tonumber)",
			function, short(number), short(numeric))
	case orders && number != nil && other != nil:
		w.note("order", "%s has numbers such as %s and strings such as %s, each of which is greater than each number", function, short(number), short(other))
	case orders && (isDate(other) || misordered):
		w.note("characters", "%s sorts strings such as %s by their characters, not as dates or numbers", function, short(other))
	case orders && other == nil && !slices.IsSortedFunc(texts, byNumber):
		w.note("characters", "%s sorts strings such as %s by their characters; to sort numbers, write (.key|tonumber)", function, short(numeric))
	}
	if null != nil && (number != nil || numeric != nil || other != nil) && (function == "min" || function == "min_by" || function == "sort_by") {
		w.note("null", "%s has null (also of a missing key), which is less than all others; leave it out with select(. != null)", function)
	}
}

// amount matches a number with its unit, such as 512Mi, 1.5 GB and 90ms.
var amount = lazyregexp.New(`^\d+(\.\d+)? ?\pL{1,3}$`)

// maxSorted is how many strings are sorted as numbers.
const maxSorted = 100_000

func byNumber(a, b string) int {
	x, _ := numberOf(a)
	y, _ := numberOf(b)
	return cmp.Compare(x, y)
}
