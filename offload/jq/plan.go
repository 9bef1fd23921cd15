package jq

import (
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// plan says which part of a document a query needs. A document that is too large for
// the memory is then read in parts.
type plan struct {
	path []any // names and indexes of the part
	need need
	from int // of slices: the first element; a negative number counts from the end
	to   int // of slices: the element after the last one, or -1
	// optional means that a value without elements is no error.
	optional bool
	array    bool // elements are those of an array
}

// need is what a query needs of the part.
type need int

const (
	needValue    need = iota // all of it
	needElements             // its elements, one after the other
	needSlice                // an array of some elements
	needLength
	needKeys
)

// elementsFunc yields the elements of the part in a planned query.
const elementsFunc = "_elements"

// planOf returns the plan of a query, and the query that runs on the planned part.
// If the query needs the document in more than one place, the plan is the document.
func planOf(text string) (*gojq.Query, plan, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, plan{}, err
	}
	p := &planner{}
	if len(query.Imports) > 0 || query.Meta != nil {
		p.whole = true
	} else {
		p.query(query, nil)
	}
	if p.whole || p.uses != 1 {
		query, err = gojq.Parse(text) // the planner changed it
		return query, plan{}, err
	}
	return query, p.plan, nil
}

// planner rewrites a query in place.
type planner struct {
	plan  plan
	uses  int  // places that need the document
	whole bool // the query is not understood
}

// query plans q, whose input is the value at path.
func (p *planner) query(q *gojq.Query, path []any) {
	switch {
	case q == nil || p.whole:
	case len(q.FuncDefs) > 0:
		p.whole = true
	case q.Term != nil:
		p.term(q.Term, path)
	case q.Op == gojq.OpPipe && len(q.Patterns) == 0:
		if below, ok := pathOf(q.Left); ok {
			right := *q.Right
			*q = right
			p.query(q, append(slices.Clone(path), below...))
			return
		}
		p.query(q.Left, path)
		if p.uses == 0 { // the left side is a constant
			return
		}
	default:
		if q.Op == gojq.OpPipe || len(q.Patterns) > 0 || q.Op >= gojq.OpAssign {
			p.whole = true
			return
		}
		p.query(q.Left, path)
		p.query(q.Right, path)
	}
}

// pathOf returns the path of a query such as ".a.b[0]".
func pathOf(q *gojq.Query) ([]any, bool) {
	if q == nil || q.Term == nil || len(q.FuncDefs) > 0 {
		return nil, false
	}
	path, rest, ok := leadingPath(q.Term)
	return path, ok && len(rest) == 0
}

// leadingPath returns the constant names and indexes that a term begins with, and its
// other suffixes.
func leadingPath(t *gojq.Term) (path []any, rest []*gojq.Suffix, ok bool) {
	switch t.Type {
	case gojq.TermTypeIdentity:
	case gojq.TermTypeIndex:
		key, ok := constantKey(t.Index)
		if !ok {
			return nil, append([]*gojq.Suffix{{Index: t.Index}}, t.SuffixList...), true
		}
		path = append(path, key)
	default:
		return nil, nil, false
	}
	for i, suffix := range t.SuffixList {
		key, ok := constantKey(suffix.Index)
		if !ok || suffix.Optional || i+1 < len(t.SuffixList) && t.SuffixList[i+1].Optional {
			return path, t.SuffixList[i:], true
		}
		path = append(path, key)
	}
	return path, nil, true
}

// constantKey returns the name or the index that an index names.
func constantKey(x *gojq.Index) (any, bool) {
	switch {
	case x == nil || x.IsSlice:
		return nil, false
	case x.Name != "":
		return x.Name, true
	case x.Str != nil && len(x.Str.Queries) == 0:
		return x.Str.Str, true
	case x.Start != nil && x.Start.Term != nil && x.Start.Term.Str != nil && len(x.Start.Term.Str.Queries)+len(x.Start.Term.SuffixList) == 0:
		return x.Start.Term.Str.Str, true
	}
	n, ok := constantNumber(x.Start)
	return n, ok && n >= 0
}

func constantNumber(q *gojq.Query) (int, bool) {
	if q == nil || q.Term == nil || len(q.Term.SuffixList) > 0 {
		return 0, false
	}
	t, sign := q.Term, 1
	if t.Type == gojq.TermTypeUnary && t.Unary.Op == gojq.OpSub {
		t, sign = t.Unary.Term, -1
	}
	if t.Type != gojq.TermTypeNumber {
		return 0, false
	}
	n, err := strconv.Atoi(t.Number)
	return sign * n, err == nil
}

// use notes that the query needs a part of the document.
func (p *planner) use(plan plan) {
	p.uses++
	p.plan = plan
}

func (p *planner) term(t *gojq.Term, path []any) {
	if below, rest, ok := leadingPath(t); ok {
		path = append(slices.Clone(path), below...)
		p.access(t, path, rest)
		return
	}
	for _, suffix := range t.SuffixList { // constants only
		if x := suffix.Index; x != nil && x.Name == "" {
			if _, ok := constantKey(x); !ok && !x.IsSlice {
				p.whole = true
			}
		}
	}
	switch t.Type {
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber, gojq.TermTypeFormat:
	case gojq.TermTypeString:
		p.whole = p.whole || len(t.Str.Queries) > 0
	case gojq.TermTypeQuery:
		p.query(t.Query, path)
	case gojq.TermTypeArray:
		p.query(t.Array.Query, path)
	case gojq.TermTypeObject:
		for _, kv := range t.Object.KeyVals {
			if kv.Val == nil || kv.KeyQuery != nil {
				p.whole = true
			}
			p.query(kv.Val, path)
		}
	case gojq.TermTypeReduce:
		p.query(t.Reduce.Query, path)
		p.constant(t.Reduce.Start)
	case gojq.TermTypeFunc:
		p.function(t, path)
	default:
		p.whole = true
	}
}

// constant refuses a query that needs its input.
func (p *planner) constant(q *gojq.Query) {
	uses := p.uses
	p.query(q, nil)
	p.whole = p.whole || p.uses != uses
}

// access plans a path with suffixes that are not constant keys.
func (p *planner) access(t *gojq.Term, path []any, rest []*gojq.Suffix) {
	plan := plan{path: path}
	*t = gojq.Term{Type: gojq.TermTypeIdentity, SuffixList: rest}
	if len(rest) > 0 {
		first, last := rest[0], &gojq.Index{}
		if first.Index != nil {
			last = first.Index
		}
		switch n, negative := constantNumber(last.Start); {
		case first.Iter:
			plan.need = needElements
			t.Type, t.Func, t.SuffixList = gojq.TermTypeFunc, &gojq.Func{Name: elementsFunc}, rest[1:]
			if len(rest) > 1 && rest[1].Optional {
				t.SuffixList, plan.optional = rest[2:], true
			}
		case last.IsSlice:
			from, fromOK := constantNumber(last.Start)
			to, toOK := constantNumber(last.End)
			if (fromOK || last.Start == nil) && (last.End == nil || toOK && to >= 0 && from >= 0) {
				plan.need, plan.from, plan.to = needSlice, from, -1
				if last.End != nil {
					plan.to = to
				}
				t.SuffixList = rest[1:]
			}
		case negative && n < 0:
			plan.need, plan.from, plan.to = needSlice, n, -1
			rest[0] = &gojq.Suffix{Index: &gojq.Index{Start: number(0)}}
			if n < -1 { // a shorter array has no such element
				plan.need, plan.from = needValue, 0
				rest[0] = first
			}
		}
	}
	p.use(plan)
}

func number(n int) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: strconv.Itoa(n)}}
}

func elements() *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: elementsFunc}}}
}

// function plans a call of a built-in function.
func (p *planner) function(t *gojq.Term, path []any) {
	f := t.Func
	each := func(rewritten *gojq.Query) {
		t.Type, t.Func, t.Query = gojq.TermTypeQuery, nil, rewritten
		p.use(plan{path: path, need: needElements})
	}
	call := func(name string, args ...*gojq.Query) *gojq.Query {
		return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
	}
	identity := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}
	switch f.Name + "/" + strconv.Itoa(len(f.Args)) {
	case "empty/0", "now/0", "infinite/0", "nan/0", "env/0", "null/0", "halt/0":
	case "range/1", "error/1":
		p.constant(f.Args[0])
	case "length/0", "keys/0":
		plan := plan{path: path, need: needLength}
		if f.Name == "keys" {
			plan.need = needKeys
		}
		t.Type, t.Func = gojq.TermTypeIdentity, nil
		p.use(plan)
	case "first/0", "last/0":
		t.Type, t.Func = gojq.TermTypeIdentity, nil
		at := &gojq.Index{Start: number(0)}
		if f.Name == "last" {
			at.Start = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeUnary, Unary: &gojq.Unary{Op: gojq.OpSub, Term: number(1).Term}}}
		}
		t.SuffixList = append([]*gojq.Suffix{{Index: at}}, t.SuffixList...)
		p.term(t, path)
	case "add/0":
		each(call("add", elements()))
	case "any/0", "all/0":
		each(call(f.Name, elements(), identity))
	case "any/1", "all/1":
		each(call(f.Name, elements(), f.Args[0]))
	case "max/0", "max_by/1", "min/0", "min_by/1": // see the prelude
		t.Type, t.Func, t.Query = gojq.TermTypeQuery, nil, call(strings.Replace("_"+f.Name, "_by", "", 1), elements(), append(f.Args, identity)[0])
		p.use(plan{path: path, need: needElements, array: true})
	case "map/1":
		each(&gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{
			Query: &gojq.Query{Op: gojq.OpPipe, Left: elements(), Right: f.Args[0]},
		}}})
	case "first/1", "last/1", "isempty/1", "add/1":
		p.query(f.Args[0], path)
	case "limit/2", "nth/2", "skip/2":
		p.constant(f.Args[0])
		p.query(f.Args[1], path)
	case "any/2", "all/2":
		p.query(f.Args[0], path) // the condition sees the values of the first argument
	default:
		// Functions such as group_by(f) need all of their input.
		*t = gojq.Term{Type: gojq.TermTypeQuery, Query: &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: f}}, SuffixList: t.SuffixList}
		p.use(plan{path: path})
	}
}
