package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
)

// normalize checks JSON from outside and returns it in the form of JSON.stringify: no
// white space, and the fewest escapes in each string. Unlike a round trip through
// JavaScript, it keeps the text of numbers (1.0, 1e3, -0, 2^64), the order of keys
// (also "2" before "1") and repeated keys.
func normalize(data []byte) (string, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return "", errors.New("the input is empty")
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("the input is not valid UTF-8 (byte %d)", invalidAt(data))
	}
	if !jsontext.Value(data).IsValid(jsonread.Lenient...) {
		// Only this decoder reports what is wrong, and where, in words for a person.
		if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(json.RawMessage))); ok {
			return "", fmt.Errorf("the input is not JSON: %w (byte %d)", syntax, syntax.Offset)
		}
		return "", errors.New("the input is not JSON")
	}
	return restringify(data), nil
}

// invalidAt returns the first byte that is not UTF-8. No text in UTF-8 has the byte 0xff.
func invalidAt(data []byte) int {
	return bytes.IndexByte(bytes.ToValidUTF8(data, []byte{0xff}), 0xff)
}

// restringify removes the white space of valid JSON, and reduces the escapes in its strings.
func restringify(src []byte) string {
	var dst strings.Builder
	dst.Grow(len(src))
	inString := false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\\':
			n := 2
			if pair.Match(src[i:]) {
				n = 12
			} else if src[i+1] == 'u' {
				n = 6
			}
			dst.Write(reduced(src[i : i+n]))
			i += n - 1
		case c == '"' || inString || c > ' ':
			dst.WriteByte(c)
			inString = inString != (c == '"')
		}
	}
	return dst.String()
}

// pair matches the escape of a character that takes two units of UTF-16.
var pair = regexp.MustCompile(`^\\u[dD][89abAB]..\\u[dD][c-fC-F]`)

// reduced returns an escape as JSON.stringify writes it.
func reduced(escape []byte) []byte {
	if escape[1] != 'u' && escape[1] != '/' {
		return escape
	}
	text, err := jsontext.AppendUnquote(nil, `"`+string(escape)+`"`)
	if err != nil { // half a surrogate pair
		return bytes.ToLower(escape)
	}
	quoted := Quote(string(text))
	return []byte(quoted[1 : len(quoted)-1])
}

// Quote returns s as a JSON string, like JSON.stringify.
func Quote(s string) string {
	quoted, _ := jsontext.AppendQuote(make([]byte, 0, len(s)+len(s)/8+2), s) // replaces what is not UTF-8
	return string(quoted)
}

// unquote returns the text of a JSON string. Half a surrogate pair becomes U+FFFD, as in
// every UTF-8 file that Node writes.
func unquote(literal string) string {
	if !strings.Contains(literal, `\`) {
		return literal[1 : len(literal)-1]
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(literal)), literal) // the error is about halves
	return string(text)
}

// length returns JavaScript's length of s, in UTF-16 code units.
func length(s string) int {
	n := 0
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 0xF0: // the first byte of a character that takes two units
			n += 2
		case b < 0x80 || b >= 0xC0:
			n++
		}
	}
	return n
}
