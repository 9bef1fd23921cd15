package jq

import (
	"slices"
	"strconv"

	"github.com/itchyny/gojq"
)

// plan says which part of a document a query needs. A document that is too large for the memory is
// then read in parts.
type plan struct {
	path []any       // the names and indexes that the query begins with
	rest *gojq.Query // all behind the path
	// need is what rest needs of an array or object at path, which is then read in parts.
	need need
	// Of needRange: the elements from one to another, or to the end if that is -1. A negative
	// from counts from the end.
	from, to int
	// each runs on each element (needEach, needMapped), and after on the array of their results,
	// on the length or on the keys.
	each, after *gojq.Query
}

// need is what a query needs of the value at its path.
type need int

const (
	needAll    need = iota
	needEach        // .[] | each: the elements, one after the other
	needMapped      // [.[] | each] | after
	needRange       // .[2:4]: some elements
	needLength      // length | after
	needKeys        // keys | after
)

// planOf returns the plan of a query: what it does first decides. All other parts of a query see
// only the result of that.
func planOf(query *gojq.Query) plan { return planStages(stagesOf(query)) }

// stagesOf returns the parts of a pipe.
func stagesOf(q *gojq.Query) []*gojq.Query {
	if q.Op == gojq.OpPipe && len(q.Patterns) == 0 && len(q.FuncDefs) == 0 {
		return append(stagesOf(q.Left), stagesOf(q.Right)...)
	}
	if t := q.Term; t != nil && t.Type == gojq.TermTypeQuery && len(t.SuffixList)+len(q.FuncDefs) == 0 {
		return stagesOf(t.Query) // in parentheses
	}
	return []*gojq.Query{q}
}

// pipe is the reverse of stagesOf.
func pipe(stages ...*gojq.Query) *gojq.Query {
	switch len(stages) {
	case 0:
		return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}
	case 1:
		return stages[0]
	}
	return &gojq.Query{Op: gojq.OpPipe, Left: stages[0], Right: pipe(stages[1:]...)}
}

func planStages(stages []*gojq.Query) (p plan) {
	for len(stages) > 0 {
		first := stages[0]
		if first.Term == nil || len(first.FuncDefs) > 0 {
			break
		}
		path, suffixes, ok := leadingPath(first.Term)
		if !ok {
			p.function(first.Term, stages)
			return p
		}
		p.path = append(p.path, path...)
		if stages = stages[1:]; len(suffixes) > 0 {
			stages = slices.Insert(stages, 0, &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity, SuffixList: suffixes}})
			p.suffix(suffixes, stages)
			return p
		}
	}
	p.rest = pipe(stages...)
	return p
}

// suffix plans stages that begin with suffixes other than a path.
func (p *plan) suffix(suffixes []*gojq.Suffix, stages []*gojq.Query) {
	p.rest = pipe(stages...)
	switch first := suffixes[0]; {
	case first.Iter && (len(suffixes) == 1 || !suffixes[1].Optional):
		p.need = needEach
		p.each = pipe(append([]*gojq.Query{{Term: &gojq.Term{Type: gojq.TermTypeIdentity, SuffixList: suffixes[1:]}}}, stages[1:]...)...)
	case first.Index != nil:
		from, fromOK := constantNumber(first.Index.Start)
		to, toOK := constantNumber(first.Index.End)
		switch {
		case !first.Index.IsSlice && fromOK: // .[-1], since .[1] is a path
			p.need, p.from, p.to = needRange, from, -1
			if from >= 0 { // .[1]?
				p.to = from + 1
			}
		case first.Index.IsSlice && (fromOK || first.Index.Start == nil) && first.Index.End == nil:
			p.need, p.from, p.to = needRange, from, -1
		case first.Index.IsSlice && (fromOK || first.Index.Start == nil) && toOK && from >= 0 && to >= 0:
			p.need, p.from, p.to = needRange, from, to
		}
	}
}

// function plans stages that begin with another term than a path.
func (p *plan) function(t *gojq.Term, stages []*gojq.Query) {
	p.rest = pipe(stages...)
	p.after = pipe(append([]*gojq.Query{{Term: &gojq.Term{Type: gojq.TermTypeIdentity, SuffixList: t.SuffixList}}}, stages[1:]...)...)
	switch {
	case t.Type == gojq.TermTypeArray && t.Array.Query != nil:
		if inner := planStages(stagesOf(t.Array.Query)); inner.need == needEach {
			array := *t
			array.Array = &gojq.Array{Query: inner.rest}
			p.path, p.rest = append(p.path, inner.path...), pipe(append([]*gojq.Query{{Term: &array}}, stages[1:]...)...)
			p.need, p.each = needMapped, inner.each
		}
	case t.Type != gojq.TermTypeFunc:
	case t.Func.Name == "map" && len(t.Func.Args) == 1:
		p.need, p.each = needMapped, t.Func.Args[0]
	case len(t.Func.Args) > 0:
	case t.Func.Name == "length":
		p.need = needLength
	case t.Func.Name == "keys":
		p.need = needKeys
	}
}

// leadingPath returns the constant names and indexes that a term begins with, and its
// other suffixes.
func leadingPath(t *gojq.Term) (path []any, rest []*gojq.Suffix, ok bool) {
	suffixes := t.SuffixList
	switch t.Type {
	case gojq.TermTypeIdentity:
	case gojq.TermTypeIndex:
		suffixes = append([]*gojq.Suffix{{Index: t.Index}}, suffixes...)
	default:
		return nil, nil, false
	}
	for i, suffix := range suffixes {
		key, ok := constantKey(suffix.Index)
		if !ok || i+1 < len(suffixes) && suffixes[i+1].Optional {
			return path, suffixes[i:], true
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
