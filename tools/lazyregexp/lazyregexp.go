// Package lazyregexp has regular expressions that are compiled when they are first used. Those of all
// packages took a sixth of the processor time of each start of the program, and a command uses few.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regexp.Regexp with those of its methods that somebody uses.
type Regexp struct {
	compiled func() *regexp.Regexp
}

// A program of tests compiles all at once, so that each test of a package fails if an expression is not valid.
var inTest = len(os.Args) > 0 && strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

// New returns the expression. Its first use panics if it is not valid.
func New(expr string) Regexp {
	r := Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	if inTest {
		r.compiled()
	}
	return r
}

func (r Regexp) Find(b []byte) []byte                   { return r.compiled().Find(b) }
func (r Regexp) FindAllIndex(b []byte, n int) [][]int   { return r.compiled().FindAllIndex(b, n) }
func (r Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }
func (r Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}
func (r Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}
func (r Regexp) FindIndex(b []byte) []int             { return r.compiled().FindIndex(b) }
func (r Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }
func (r Regexp) FindSubmatch(b []byte) [][]byte       { return r.compiled().FindSubmatch(b) }
func (r Regexp) FindSubmatchIndex(b []byte) []int     { return r.compiled().FindSubmatchIndex(b) }
func (r Regexp) Match(b []byte) bool                  { return r.compiled().Match(b) }
func (r Regexp) MatchString(s string) bool            { return r.compiled().MatchString(s) }
func (r Regexp) ReplaceAllFunc(b []byte, f func([]byte) []byte) []byte {
	return r.compiled().ReplaceAllFunc(b, f)
}
func (r Regexp) ReplaceAllString(s, repl string) string {
	return r.compiled().ReplaceAllString(s, repl)
}
func (r Regexp) ReplaceAllStringFunc(s string, f func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, f)
}
func (r Regexp) Split(s string, n int) []string { return r.compiled().Split(s, n) }
