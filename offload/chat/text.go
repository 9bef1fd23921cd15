package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of arrays and objects, and so the cost of indenting,
// which grows with the square of the depth.
const maxDepth = 1000

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
	text, err := restringify(data)
	if !errors.Is(err, errNotJSON) {
		return text, err
	}
	// Only the decoder reports what is wrong, and where.
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(data, new(json.RawMessage)), &syntax) {
		return "", fmt.Errorf("%w: %w (byte %d)", errNotJSON, syntax, syntax.Offset)
	}
	return "", err
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

var errNotJSON = errors.New("the input is not JSON")

// restringify checks JSON, removes its white space, and reduces the escapes in its
// strings. Nearly all bytes of a message are inside strings: restringify checks them
// ten times as fast as encoding/json does. It passes the rest, with each string emptied,
// to encoding/json.
func restringify(src []byte) (string, error) {
	var dst strings.Builder
	dst.Grow(len(src))
	var frame []byte
	depth := 0
	for i := 0; i < len(src); {
		c := src[i]
		frame = append(frame, c)
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			dst.WriteByte(c)
		}
		i++
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				return "", fmt.Errorf("the input nests deeper than %d levels", maxDepth)
			}
		case ']', '}':
			depth--
		case '"':
			n := copyString(&dst, src[i:])
			if n < 0 {
				return "", errNotJSON
			}
			i += n
			frame = append(frame, '"')
		}
	}
	if !json.Valid(frame) {
		return "", errNotJSON
	}
	return dst.String(), nil
}

// copyString copies the string at the start of src, including its closing quote, and
// returns its length in src, or -1 if it is invalid.
func copyString(dst *strings.Builder, src []byte) int {
	copied := 0
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '"':
			i++
			dst.Write(src[copied:i])
			return i
		case c == '\\':
			n, r := unescape(src[i:])
			if n == 0 {
				return -1
			}
			dst.Write(src[copied:i])
			writeEscaped(dst, r)
			i += n
			copied = i
		case c < ' ':
			return -1
		default:
			i++
		}
	}
	return -1
}

// unescape decodes the escape sequence at the start of s and returns its length, or 0
// if it is invalid. It returns half a surrogate pair unchanged.
func unescape[T string | []byte](s T) (int, rune) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return 2, rune(s[1])
	case 'b':
		return 2, '\b'
	case 'f':
		return 2, '\f'
	case 'n':
		return 2, '\n'
	case 'r':
		return 2, '\r'
	case 't':
		return 2, '\t'
	case 'u':
		r := hex4(s[2:])
		if r < 0 {
			return 0, 0
		}
		if utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(s[8:])); pair != utf8.RuneError {
				return 12, pair
			}
		}
		return 6, r
	}
	return 0, 0
}

// hex4 reads four hexadecimal digits, or returns -1.
func hex4[T string | []byte](s T) rune {
	if len(s) < 4 {
		return -1
	}
	n, err := strconv.ParseUint(string(s[:4]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// writeEscaped writes one character of a string like JSON.stringify: it escapes quote,
// backslash, control characters and halves of surrogate pairs, and nothing else (no
// HTML, no U+2028).
func writeEscaped(dst *strings.Builder, r rune) {
	switch {
	case r == '"' || r == '\\':
		dst.WriteByte('\\')
		dst.WriteByte(byte(r))
	case r == '\b':
		dst.WriteString(`\b`)
	case r == '\t':
		dst.WriteString(`\t`)
	case r == '\n':
		dst.WriteString(`\n`)
	case r == '\f':
		dst.WriteString(`\f`)
	case r == '\r':
		dst.WriteString(`\r`)
	case r < ' ' || utf16.IsSurrogate(r):
		fmt.Fprintf(dst, `\u%04x`, r)
	default:
		dst.WriteRune(r)
	}
}

// Quote returns s as a JSON string, like JSON.stringify.
func Quote(s string) string {
	var dst strings.Builder
	dst.Grow(len(s) + 2)
	dst.WriteByte('"')
	for _, r := range s {
		writeEscaped(&dst, r)
	}
	dst.WriteByte('"')
	return dst.String()
}

// unquote returns the text of a JSON string. Half a surrogate pair becomes U+FFFD, as in
// every UTF-8 file that Node writes.
func unquote(literal string) string {
	rest := literal[1 : len(literal)-1]
	i := strings.IndexByte(rest, '\\')
	if i < 0 {
		return rest
	}
	var dst strings.Builder
	dst.Grow(len(rest))
	for ; i >= 0; i = strings.IndexByte(rest, '\\') {
		dst.WriteString(rest[:i])
		n, r := unescape(rest[i:])
		dst.WriteRune(r) // half a surrogate pair becomes U+FFFD
		rest = rest[i+n:]
	}
	dst.WriteString(rest)
	return dst.String()
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

// literalLength is length(unquote(literal)).
func literalLength(literal string) int {
	rest, n := literal[1:len(literal)-1], 0
	for i := strings.IndexByte(rest, '\\'); i >= 0; i = strings.IndexByte(rest, '\\') {
		used, r := unescape(rest[i:])
		n += length(rest[:i]) + utf16.RuneLen(r)
		if utf16.IsSurrogate(r) {
			n += 2 // RuneLen has -1 for a half
		}
		rest = rest[i+used:]
	}
	return n + length(rest)
}
