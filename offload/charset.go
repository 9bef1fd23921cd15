package offload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/tools"
)

// charsets are the encodings of texts, other than UTF-8, that are read as text. The media type
// of an artifact names its charset. The artifact keeps its bytes, and the reader decodes them.
var charsets = map[string]encoding.Encoding{
	"utf-16le":     unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	"utf-16be":     unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"windows-1252": charmap.Windows1252, // Latin-1 with printable characters in place of control characters
}

// charset returns the charset of the artifact's bytes, if it is one of charsets, otherwise "".
func (rec Record) charset() string {
	_, params, _ := mime.ParseMediaType(rec.MediaType)
	if rec.Type == TypeBinary {
		return ""
	}
	if charsets[params["charset"]] == nil {
		return ""
	}
	return params["charset"]
}

// inCharset returns a media type with another charset.
func inCharset(mediaType, charset string) string {
	media, _, _ := strings.Cut(mediaType, ";")
	return media + "; charset=" + charset
}

// isMedia reports whether a media type is one of others, in any charset.
func isMedia(media string, others ...string) bool {
	media, _, _ = strings.Cut(media, ";")
	return slices.ContainsFunc(others, func(other string) bool {
		other, _, _ = strings.Cut(other, ";")
		return other == media
	})
}

// charsetOf returns the charset of a text that is not UTF-8, or "" if it is none of charsets.
// A byte order mark announces UTF-16. Single bytes that are not ASCII, none of which belongs to a
// character of UTF-8, are Latin-1 if they are letters in words.
func charsetOf(src io.ReaderAt, size int64, singleBytes bool) (string, error) {
	head, err := readRange(src, 0, min(size, sniffBytes))
	if err != nil {
		return "", err
	}
	for name, bom := range map[string]string{"utf-16le": "\xff\xfe", "utf-16be": "\xfe\xff"} {
		if !bytes.HasPrefix(head, []byte(bom)) {
			continue
		}
		if size%2 != 0 || mostlyASCII(head[len(bom):]) { // bytes that only begin like the mark
			return "", nil
		}
		text, err := charsets[name].NewDecoder().Bytes(head[:len(head)/2*2])
		text = bytes.TrimSuffix(text, []byte("\ufffd")) // half of a character
		if err != nil || bytes.ContainsAny(text, "\x00\x01\x02\x03\x04\ufffd") {
			return "", nil
		}
		return name, nil
	}
	if !singleBytes || !isText(mimetype.Detect(head), head) {
		return "", nil
	}
	if latin, err := isLatin1(src, size); !latin {
		return "", err
	}
	return "windows-1252", nil
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

// isLatin1 tells Latin-1 from stray bytes and from the charsets of languages in which most letters
// are not ASCII: a letter that is not ASCII has at least one neighbour that is, on average.
func isLatin1(src io.ReaderAt, size int64) (bool, error) {
	letter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	high, inWords, last, defined := 0, 0, byte(0), true
	err := eachBlock(src, size, func(block []byte) bool {
		for _, c := range block {
			if c >= utf8.RuneSelf {
				high++
				defined = defined && charmap.Windows1252.DecodeByte(c) != utf8.RuneError
			}
			if letter(last) && c >= 0xC0 || last >= 0xC0 && letter(c) {
				inWords++
			}
			last = c
		}
		return defined
	})
	return err == nil && defined && high > 0 && inWords >= high, err
}

// decode returns the UTF-8 of a text. The caller closes it. A text of more than 1 MiB is in a
// file meanwhile.
func decode(ctx context.Context, src io.ReaderAt, size int64, charset string) (blockContent, error) {
	out := tools.NewOutput(tools.OutputLimits{Total: 4 * size})
	decoded := transform.NewReader(io.NewSectionReader(src, 0, size), charsets[charset].NewDecoder())
	indexer, block := index.NewIndexer(), make([]byte, index.BlockSize)
	for {
		n, err := io.ReadFull(decoded, block)
		if n > 0 {
			indexer.Block(block[:n])
			if _, writeErr := out.Write(block[:n]); writeErr != nil {
				err = writeErr
			}
		}
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			x, _ := indexer.Finish()
			return blocks.NewContent(out, x), nil
		case err == nil:
			err = ctx.Err()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("decode %s: %w", charset, err), out.Close())
		}
	}
}
