package markup

import (
	"slices"
	"testing"
)

func TestBreaks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"a\n\nb":                            {3},
		"a\n\n\nb\n ":                       {3, 4},
		"````\n```go\n\nx\n```\n\n````\n\n": {25},
		"```\n\n```go\n\n```\n\n":           {17},
		"~~~~ `x`\n\n~~~\n\n~~~~~\n\n":      {22},
		"```x``` is code\n\nb":              {17},
		"```\n\nopen":                       nil,
		"":                                  nil,
	} {
		if got := slices.Collect(Breaks(text)); !slices.Equal(got, want) {
			t.Errorf("%q breaks at %v, want %v", text, got, want)
		}
	}
}
