package grep

import (
	"bytes"
	"context"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	// maxSize is how many bytes of states and transitions a dfa keeps. Then it forgets them.
	maxSize = 8 << 20
	// minReuse is how many bytes a dfa must search for each transition that it computes, on
	// average. Otherwise package regexp is as fast.
	minReuse = 4
)

// dfa finds the lines that match, many times as fast as package regexp finds the matches. Each
// state is a set of threads of the program; the dfa computes a transition when a text first
// needs it.
type dfa struct {
	prog   *syntax.Prog
	bounds []rune                // first runes of the classes; the program treats all runes of a class alike
	ascii  [utf8.RuneSelf]uint16 // the class of each
	states []string              // the kind of the last rune ('\n', a letter or a space) and the threads, 4 bytes each
	index  map[string]int32      // of states
	size   int                   // bytes of states and next
	next   []int32               // by state and class: a state, unknown or matched

	threads []uint32 // of the state that is computed
	visited []uint32 // by instruction: the transition that visited it last
	// searched bytes and computed transitions decide whether the dfa is of use.
	searched int
	computed uint32
	useless  bool
}

const (
	unknown = -1
	matched = -2
)

func newDFA(tree *syntax.Regexp) (*dfa, error) {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	d := &dfa{prog: prog, visited: make([]uint32, len(prog.Inst))}
	d.bounds = []rune{0, '\n', '\n' + 1, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1} // the words of \b
	for _, inst := range prog.Inst {
		for i := 0; i < len(inst.Rune); i += 2 {
			d.bounds = append(d.bounds, inst.Rune[i], inst.Rune[min(i+1, len(inst.Rune)-1)]+1)
		}
		if len(inst.Rune) == 1 && syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
			for r := unicode.SimpleFold(inst.Rune[0]); r != inst.Rune[0]; r = unicode.SimpleFold(r) {
				d.bounds = append(d.bounds, r, r+1)
			}
		}
	}
	slices.Sort(d.bounds)
	d.bounds = slices.Compact(d.bounds)
	for c := range d.ascii {
		d.ascii[c] = uint16(d.class(rune(c)))
	}
	d.forget()
	return d, nil
}

func (d *dfa) class(r rune) int {
	i, found := slices.BinarySearch(d.bounds, r)
	if !found {
		i--
	}
	return i
}

// forget leaves only the state 0, that at the start of a line.
func (d *dfa) forget() {
	d.states, d.index, d.next, d.size = nil, map[string]int32{}, d.next[:0], 0
	d.add('\n', nil)
}

// from returns a position in or at the end of the first line with a match, or -1. It begins with
// the line of pos. If ctx ends, or if the dfa is of no use, it returns pos.
func (d *dfa) from(ctx context.Context, text []byte, pos int) int {
	if d.useless {
		return pos
	}
	start := bytes.LastIndexByte(text[:pos], '\n') + 1
	state := int32(0)
	for i := start; ; {
		class, size := d.ascii['\n'], 1 // the end of the text is that of a line
		if i < len(text) {
			if c := text[i]; c < utf8.RuneSelf {
				class = d.ascii[c]
			} else {
				var r rune
				r, size = utf8.DecodeRune(text[i:])
				class = uint16(d.class(r))
			}
		}
		next := d.next[int(state)*len(d.bounds)+int(class)]
		if next == unknown {
			if d.useless = d.computed > 1000 && d.searched+i-start < minReuse*int(d.computed); d.useless || d.computed%64 == 0 && ctx.Err() != nil {
				return pos
			}
			next = d.compute(state, int(class))
		}
		switch {
		case next == matched:
			d.searched += i - start
			return i
		case i == len(text):
			d.searched += i - start
			return -1
		}
		state = next
		i += size
	}
}

// compute returns the state after a rune.
func (d *dfa) compute(state int32, class int) int32 {
	d.computed++
	s, r := d.states[state], d.bounds[class]
	op := syntax.EmptyOpContext(rune(s[0]), r)
	d.threads = d.threads[:0]
	found := d.follow(uint32(d.prog.Start), op, r)
	for threads := []byte(s[1:]); len(threads) > 0 && !found; threads = threads[4:] {
		found = d.follow(binary.LittleEndian.Uint32(threads), op, r)
	}
	next := int32(matched)
	if !found {
		before := byte(' ')
		switch {
		case r == '\n':
			before = '\n'
		case syntax.IsWordChar(r):
			before = 'a'
		}
		slices.Sort(d.threads)
		if d.size > maxSize {
			d.forget()
			return d.add(before, slices.Compact(d.threads))
		}
		next = d.add(before, slices.Compact(d.threads))
	}
	d.next[int(state)*len(d.bounds)+class] = next
	return next
}

// follow adds the threads that a thread continues with after rune r, and reports whether the
// thread matches before r.
func (d *dfa) follow(pc uint32, op syntax.EmptyOp, r rune) (found bool) {
	for stack := []uint32{pc}; len(stack) > 0 && !found; {
		pc, stack = stack[len(stack)-1], stack[:len(stack)-1]
		if d.visited[pc] == d.computed {
			continue
		}
		d.visited[pc] = d.computed
		switch inst := &d.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^op == 0 {
				stack = append(stack, inst.Out)
			}
		case syntax.InstFail:
		default:
			if inst.MatchRune(r) {
				d.threads = append(d.threads, inst.Out)
			}
		}
	}
	return false
}

// add returns the state with these threads.
func (d *dfa) add(before byte, threads []uint32) int32 {
	key := []byte{before}
	for _, pc := range threads {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	state, ok := d.index[string(key)]
	if !ok {
		s := string(key)
		state = int32(len(d.states))
		d.index[s] = state
		d.states = append(d.states, s)
		for range d.bounds {
			d.next = append(d.next, unknown)
		}
		d.size += len(s) + 4*len(d.bounds)
	}
	return state
}
