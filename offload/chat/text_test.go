package chat

import (
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"white space", " { \"a\" : [ 1 , 2 ] ,\n\"b\":{ } }\n", `{"a":[1,2],"b":{}}`},
		{"white space in strings stays", `[" a : b , "]`, `[" a : b , "]`},
		{"no html escapes", `["<b>&amp;"]`, `["<b>&amp;"]`},
		{"html escapes go", `["\u003cb\u003e\u0026"]`, `["<b>&"]`},
		{"line separators raw", `["\u2028\u2029"]`, "[\"\u2028\u2029\"]"},
		{"slash", `["\/"]`, `["/"]`},
		{"letters", `["\u00e9\u4E2d"]`, `["é中"]`},
		{"control characters", `["\u0000\u0008\u0009\u000a\u000b\u000c\u000d\u001F\u007f"]`, `["\u0000\b\t\n\u000b\f\r\u001f` + "\x7f" + `"]`},
		{"quote and backslash", `["\u0022\u005c\\\""]`, `["\"\\\\\""]`},
		{"pair", `["\uD83D\uDE00"]`, `["😀"]`},
		{"high half", `["\uD83D"]`, `["\ud83d"]`},
		{"low half", `["\uDE00x"]`, `["\ude00x"]`},
		{"halves in the wrong order", `["\uDE00\uD83D"]`, `["\ude00\ud83d"]`},
		{"half before a pair", `["\uD83D\uD83D\uDE00"]`, `["\ud83d😀"]`},
		{"half before an escape", `["\uD83D\n"]`, `["\ud83d\n"]`},
		{"escaped backslash before u", `["\\ud83d"]`, `["\\ud83d"]`},
		{"number text", `[1.0,1e3,-0,1E+2,123456789012345678901234567890]`, `[1.0,1e3,-0,1E+2,123456789012345678901234567890]`},
		{"key order", `{"b":1,"10":2,"a":3,"2":4}`, `{"b":1,"10":2,"a":3,"2":4}`},
		{"repeated keys", `{"a":1,"a":2}`, `{"a":1,"a":2}`},
		{"escaped keys", `{"\u0061":1}`, `{"a":1}`},
		{"brackets in strings", `["[[[{{{\"]}"]`, `["[[[{{{\"]}"]`},
		{"scalars", ` null `, `null`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := normalize([]byte(test.in))
			if err != nil || got != test.want {
				t.Fatalf("normalize(%s) = %s, %v; want %s", test.in, got, err, test.want)
			}
			if again, err := normalize([]byte(got)); err != nil || again != got {
				t.Errorf("normalize is not idempotent: %s, then %s, %v", got, again, err)
			}
		})
	}
}

func TestNormalizeRefuses(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := normalize([]byte(nested(10_000))); err != nil {
		t.Error(err)
	}
	for _, test := range []struct{ name, in, want string }{
		{"empty", "", "the input is empty"},
		{"blank", " \n", "the input is empty"},
		{"text", "hello", "the input is not JSON"},
		{"cut off", `{"a":`, "the input is not JSON: unexpected end"},
		{"trailing data", `{} {}`, "the input is not JSON"},
		{"raw control character", "[\"a\nb\"]", "the input is not JSON"},
		{"bad escape", `["\x"]`, "the input is not JSON: invalid character 'x' in string escape code (byte 4)"},
		{"short escape", `["\u12"]`, "the input is not JSON"},
		{"signed escape", `["\u+123"]`, "the input is not JSON"},
		{"underlined escape", `["\u1_23"]`, "the input is not JSON"},
		{"open string", `["a`, "the input is not JSON"},
		{"open escape", `["a\`, "the input is not JSON"},
		{"two numbers", `[1 2]`, "the input is not JSON"},
		{"not UTF-8", "[\"ab\xff\"]", "the input is not valid UTF-8 (byte 4)"},
		{"a surrogate in bytes", "[\"\xed\xa0\x80\"]", "the input is not valid UTF-8 (byte 2)"},
		{"one level too deep", nested(10_001), "exceeded max depth"},
		{"a million levels", nested(1_000_000), "exceeded max depth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := normalize([]byte(test.in))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestLengthCountsUTF16(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int
	}{
		{"", 0}, {"abc", 3}, {"é", 1}, {"中", 1}, {"😀", 2}, {"👨‍👩‍👧", 8}, {"\ufffd", 1},
		{strings.Repeat("😀", 50), 100}, {strings.Repeat("中", 99), 99},
	} {
		if got := length(test.in); got != test.want {
			t.Errorf("length(%q) = %d, want %d", test.in, got, test.want)
		}
	}
}

func TestContentLength(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int
	}{
		{"", 0}, {`""`, 0}, {`"\ud800"`, 1}, {`"a\nb"`, 3}, {`[]`, 2}, {`["\ud800"]`, 10},
		{`[{"type":"text","text":"😀"}]`, 29},
	} {
		if got := contentLength(test.in); got != test.want {
			t.Errorf("contentLength(%s) = %d, want %d", test.in, got, test.want)
		}
	}
}

// Regression: backslashes corrupted by hand-made unescaping.
func TestBackslashesSurvive(t *testing.T) {
	for _, s := range []string{`C:\new\table`, `\\server\share\`, `\u0041`, `\\n`, `\"`, "\\\n", `^\d+\\.\w$`} {
		if got := unquote(Quote(s)); got != s {
			t.Errorf("unquote(Quote(%q)) = %q", s, got)
		}
	}
}

func TestIndent(t *testing.T) {
	in := `[{"type":"text","text":"a,b:[c]{d}","n":1.0},[],{},{"k":[1,{"x":[]}],"e":{}}]`
	want := `[
  {
    "type": "text",
    "text": "a,b:[c]{d}",
    "n": 1.0
  },
  [],
  {},
  {
    "k": [
      1,
      {
        "x": []
      }
    ],
    "e": {}
  }
]`
	if got := indent(in); got != want {
		t.Errorf("indent:\n%s\nwant\n%s", got, want)
	}
	if got := indent(`[]`); got != "[]" {
		t.Errorf("indent([]) = %q", got)
	}
}

// Indentation can multiply nested input by a thousand; such input stays compact.
func TestIndentDoesNotExplode(t *testing.T) {
	bomb := strings.Repeat("[", 900) + strings.Repeat("1,", 100_000) + "1" + strings.Repeat("]", 900)
	if got := indent(bomb); got != bomb {
		t.Errorf("a bomb of %d bytes was indented to %d", len(bomb), len(got))
	}
	wide := "[" + strings.Repeat(`{"a":[1]},`, 10_000) + "1]"
	if got := indent(wide); got == wide {
		t.Error("flat JSON was not indented")
	}
}
