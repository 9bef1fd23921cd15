package lazyregexp

import "testing"

// An expression that is not valid fails in a program of tests at once, and in another one when it is used.
func TestInvalid(t *testing.T) {
	panics := func(do func()) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		do()
		return false
	}
	if !panics(func() { New("(") }) {
		t.Error("a program of tests takes an expression that is not valid")
	}
	inTest = false
	defer func() { inTest = true }()
	var r Regexp
	if panics(func() { r = New("(") }) || !panics(func() { r.MatchString("") }) {
		t.Error("the expression was compiled before its first use, or never")
	}
	if r := New("b+"); r.ReplaceAllStringFunc("abbc", func(found string) string { return "<" + found + ">" }) != "a<bb>c" || r.MatchString("ac") {
		t.Error("the expression does not match what regexp matches")
	}
}
