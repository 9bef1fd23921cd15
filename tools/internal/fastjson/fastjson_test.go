package fastjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzValid(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+3,true,null,"\u00e9\ud800"]}`, `01`, `1.`, `"\x"`, "\"\x01\"", `[1,]`, `{"a":1,}`, ` {} `, `{}{}`, `nul`, `-`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := Valid(data), json.Valid(data); got != want {
			t.Errorf("%q: %v, want %v", data, got, want)
		}
	})
}

// Valid and json.Valid refuse the same depth, which no fuzzing finds.
func TestValidDepth(t *testing.T) {
	for _, depth := range []int{maxDepth - 2, maxDepth - 1, maxDepth, maxDepth + 1, 3 * maxDepth} {
		value := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got, want := Valid(value), json.Valid(value); got != want {
			t.Errorf("depth %d: %v, want %v", depth, got, want)
		}
	}
}
