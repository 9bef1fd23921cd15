// Package charset decides in which encoding a text is. The readers of artifacts and the tools of the
// workspace ask it, so that they show and find the same text.
//
// A byte order mark announces UTF-16. Single bytes that are not ASCII, none of which belongs to a character
// of UTF-8, are Latin-1 if they are letters in words. Any other text is UTF-8.
package charset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Names of encodings.
const (
	UTF16LE = "utf-16le"
	UTF16BE = "utf-16be"
	Latin1  = "windows-1252" // Latin-1 with printable characters in place of control characters
)

// Sniff is how many bytes of a content decide whether it is text.
const Sniff = 4 << 10

var encodings = map[string]encoding.Encoding{
	UTF16LE: unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	UTF16BE: unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	Latin1:  charmap.Windows1252,
}

// Known reports whether a text in an encoding can be decoded.
func Known(name string) bool { return encodings[name] != nil }

// NewReader decodes a text.
func NewReader(src io.Reader, name string) io.Reader {
	if name == "" {
		return src
	}
	return transform.NewReader(src, encodings[name].NewDecoder())
}

// Decode returns the UTF-8 of a text.
func Decode(text, name string) (string, error) {
	if name == "" {
		return text, nil
	}
	return encodings[name].NewDecoder().String(text)
}

// Encode returns a text of UTF-8 in an encoding. It fails if the encoding lacks a character.
func Encode(text, name string) (string, error) {
	if name == "" {
		return text, nil
	}
	encoded, err := encodings[name].NewEncoder().String(text)
	if err != nil {
		err = fmt.Errorf("%s lacks a character of the text", name)
	}
	return encoded, err
}

// Of returns the name of the encoding of a content, or "" if it is UTF-8, or no text. If singleBytes is false,
// the caller knows that it is ASCII or has characters of several bytes.
func Of(src io.ReaderAt, size int64, singleBytes bool) (string, error) {
	head := make([]byte, min(size, Sniff))
	if n, err := src.ReadAt(head, 0); n < len(head) {
		return "", short(err)
	}
	for name, mark := range map[string]string{UTF16LE: "\xff\xfe", UTF16BE: "\xfe\xff"} {
		if !bytes.HasPrefix(head, []byte(mark)) {
			continue
		}
		if size%2 != 0 || mostlyASCII(head[len(mark):]) { // bytes that only begin like the mark
			return "", nil
		}
		text, err := encodings[name].NewDecoder().Bytes(head[:len(head)/2*2])
		text = bytes.TrimSuffix(text, []byte("\ufffd")) // half of a character
		if err != nil || bytes.ContainsAny(text, "\x00\x01\x02\x03\x04\ufffd") {
			return "", nil
		}
		return name, nil
	}
	if !singleBytes || !IsText(mimetype.Detect(head), head) {
		return "", nil
	}
	if latin, err := isLatin1(src, size); !latin {
		return "", err
	}
	return Latin1, nil
}

// mostlyASCII reports whether most bytes are letters and such of ASCII: as UTF-16, they would be
// Chinese by chance.
func mostlyASCII(text []byte) bool {
	n := 0
	for _, c := range text {
		if c >= ' ' && c <= '~' || c == '\n' {
			n++
		}
	}
	return len(text) > 0 && n*4 >= len(text)*3
}

// block is how many bytes isLatin1 reads at a time.
const block = 64 << 10

// isLatin1 tells Latin-1 from UTF-8, stray bytes, and the charsets of languages in which most letters are not
// ASCII: a letter that is not ASCII has at least one neighbour that is, on average.
func isLatin1(src io.ReaderAt, size int64) (bool, error) {
	letter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	high, inWords, before := 0, 0, byte(0)
	buf := make([]byte, min(size, block+utf8.UTFMax)) // the end of one is the start of the next one
	for from := int64(0); from < size; from += block {
		part := buf[:min(int64(len(buf)), size-from)]
		if n, err := src.ReadAt(part, from); n < len(part) {
			return false, short(err)
		}
		for i := 0; i < min(len(part), block); i++ {
			for i+8 <= min(len(part), block) && binary.NativeEndian.Uint64(part[i:])&0x8080808080808080 == 0 {
				i += 8
				before = part[i-1]
			}
			if i == min(len(part), block) {
				break
			}
			c := part[i]
			if c >= utf8.RuneSelf {
				if _, width := utf8.DecodeRune(part[i:]); width > 1 || charmap.Windows1252.DecodeByte(c) == utf8.RuneError {
					return false, nil
				}
				if c >= 0xC0 || before < '0' || before > '9' { // not a sign behind a number: a space between thousands, ° or €
					high++
				}
				if c >= 0xC0 && letter(before) {
					inWords++
				}
				if c >= 0xC0 && i+1 < len(part) && letter(part[i+1]) {
					inWords++
				}
			}
			before = c
		}
	}
	return high > 0 && inWords >= high, nil
}

// short returns the error of a ReadAt that returned too few bytes.
func short(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// IsText corrects the library that detected m, which says that UTF-16 is text, though it must be decoded
// first, and that a content with a NUL is not, though tools separate with NUL (find -print0,
// git ls-files -z).
func IsText(m *mimetype.MIME, head []byte) bool {
	invalid, nuls := countBad(head[:len(head)-OpenRune(head)])
	known := false
	for parent := m; parent != nil; parent = parent.Parent() {
		known = known || parent.Is("text/plain")
	}
	switch {
	case nuls > 0:
		return invalid == 0 && nuls <= len(head)/4 && (known || m.Is("application/octet-stream"))
	case invalid == 0:
		return true
	}
	return known && invalid <= len(head)/4 // else an encoding that is shown as escapes only
}

// countBad counts the bytes that are not UTF-8, and the NULs.
func countBad(text []byte) (invalid, nuls int) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			invalid++
		}
		if r == 0 {
			nuls++
		}
		text = text[size:]
	}
	return invalid, nuls
}

// OpenRune returns how many bytes at the end of p are the start of a character that more bytes could complete.
func OpenRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
