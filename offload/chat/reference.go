package chat

import (
	"cmp"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	messagePrefix = "[Tool result offloaded to file: "
	historyPrefix = "[Content offloaded to: ./" + resultPrefix
	suffix        = extension + "]"
	extension     = ".md"
	resultPrefix  = "tool-result-"
)

// noID is the file name of a result without a usable id.
const noID = "unknown"

// maxReference is longer than a reference with the longest path of any system. Longer
// text is not a reference.
const maxReference = 8 << 10

// reference returns the text of a content if it is a reference of this package,
// otherwise "".
func reference(value string) string {
	// Every character of a JSON string may be an escape of six bytes.
	if kindOf(value) != "a string" || len(value) > 6*maxReference+2 {
		return ""
	}
	if s := unquote(value); cutReference(s, messagePrefix) != "" || cutReference(s, historyPrefix) != "" {
		return s
	}
	return ""
}

// cutReference returns the text between prefix and suffix, or "".
func cutReference(s, prefix string) string {
	if len(s) > maxReference || strings.ContainsAny(s, "\r\n") {
		return ""
	}
	rest, begins := strings.CutPrefix(s, prefix)
	rest, ends := strings.CutSuffix(rest, suffix)
	if !begins || !ends {
		return ""
	}
	return rest
}

// maxName leaves 55 of the usual 255 bytes for the prefix and the suffix.
const maxName = 200

// fileName returns the name for an id in paths. It is the id itself if every file
// system, a shell and a reference accept it. Otherwise (a path, a long text, text that
// looks like a hash) tools.Token hashes it. A plain name that is not a token cannot
// collide with a hash, because hashes are tokens.
func fileName(id string) string {
	switch {
	case id == "":
		return noID
	case tools.IsToken(id):
		return tools.Token(id)
	case isPlainName(id):
		return id
	}
	return tools.Token(id)
}

// isPlainName accepts é in one of its two forms only, because some file systems treat
// both as the same name.
func isPlainName(id string) bool {
	return len(id) <= maxName && utf8.ValidString(id) && norm.NFC.IsNormalString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !isPlain(r) }) &&
		!strings.ContainsRune("-. ", rune(id[0])) && !strings.HasSuffix(id, ".") && !strings.HasSuffix(id, " ") &&
		filepath.IsLocal(id)
}

// isPlain refuses invisible characters, and ASCII characters that have a meaning in a
// path, a shell, Windows or a reference.
func isPlain(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("_.:@+=,%- ", r)
	}
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// sessionName is fileName for sessions.
func sessionName(session string) string {
	return fileName(cmp.Or(session, tools.DefaultSession))
}
