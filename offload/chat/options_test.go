package chat

import (
	"math"
	"strings"
	"testing"
)

func TestOptionsWithEnv(t *testing.T) {
	for _, test := range []struct {
		name         string
		opts         Options
		chars, ratio string
		wantChars    int
		wantRatio    float64
	}{
		{"nothing set", Options{}, "", "", 100, 0},
		{"environment", Options{}, "50", "0.25", 50, 0.25},
		{"options win", Options{MinChars: new(7), MinRatio: new(0.0)}, "50", "0.25", 7, 0},
		{"zero is a value", Options{MinChars: new(0)}, "50", "", 0, 0},
		{"what is overridden may be wrong", Options{MinChars: new(7), MinRatio: new(0.5)}, "x", "y", 7, 0.5},
		{"limits", Options{}, "0", "1", 0, 1},
		{"blanks", Options{}, " 5 ", " 1e-1\n", 5, 0.1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.opts.WithEnv(environment(test.chars, test.ratio))
			if err != nil {
				t.Fatal(err)
			}
			if valueOf(got.MinChars, defaultMinChars) != test.wantChars || valueOf(got.MinRatio, 0) != test.wantRatio {
				t.Errorf("got %d and %v, want %d and %v", valueOf(got.MinChars, defaultMinChars), valueOf(got.MinRatio, 0), test.wantChars, test.wantRatio)
			}
		})
	}
}

func TestOptionsRefuseMistakes(t *testing.T) {
	for _, test := range [][2]string{{"abc", ""}, {"-1", ""}, {"1.5", ""}, {"", "abc"}, {"", "-0.1"}, {"", "20"}, {"", "NaN"}, {"", "Inf"}} {
		got, err := Options{}.WithEnv(environment(test[0], test[1]))
		if valueOf(got.MinChars, defaultMinChars) != defaultMinChars || valueOf(got.MinRatio, 0) != 0 {
			t.Errorf("environment %q: got %d and %v, want the defaults", test, valueOf(got.MinChars, defaultMinChars), valueOf(got.MinRatio, 0))
		}
		if err == nil || !strings.Contains(err.Error(), `"`+test[0]+test[1]+`"`) || !strings.Contains(err.Error(), "OFFLOAD_") {
			t.Errorf("environment %q: error %v", test, err)
		}
	}
	for _, opts := range []Options{{MinChars: new(-1)}, {MinRatio: new(-0.1)}, {MinRatio: new(1.1)}, {MinRatio: new(math.NaN())}} {
		if _, err := OffloadHistoryTo(t.Context(), nil, "d", opts, newMemory()); err == nil {
			t.Errorf("options %v, %v were accepted", opts.MinChars, opts.MinRatio)
		}
	}
}

func environment(chars, ratio string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v := map[string]string{EnvMinChars: chars, EnvMinRatio: ratio}[name]
		return v, v != ""
	}
}

func TestMinCharsOption(t *testing.T) {
	in := history(t, `[`+user(result("a", "12345"), result("b", "123456"), result("c", ""))+`]`)
	for min, want := range map[int]int{0: 2, 1: 2, 5: 2, 6: 1, 7: 0} {
		res, err := OffloadHistoryTo(t.Context(), in, "d", Options{MinChars: &min}, newMemory())
		if err != nil || res.OffloadedCount != want {
			t.Errorf("from %d characters on: %d offloaded, %v; want %d", min, res.OffloadedCount, err, want)
		}
	}
}

// valueOf returns *p, or absent if p is nil.
func valueOf[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}
