package chat

import (
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

// noID names the file of a result without a usable id.
const noID = "unknown"

// maxReference is longer than any reference with a path that a system takes, so
// that nothing large passes as a reference.
const maxReference = 8 << 10

// reference returns the text of a content that is a reference that this package
// wrote, or "".
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

// cutReference returns what stands between prefix and suffix, or "".
func cutReference(s, prefix string) string {
	if len(s) > maxReference || strings.ContainsAny(s, "\r\n") {
		return ""
	}
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return ""
	}
	rest, ok = strings.CutSuffix(rest, suffix)
	if !ok {
		return ""
	}
	return rest
}

// maxName leaves room for our prefix and suffix within the usual 255 bytes.
const maxName = 200

// fileName returns the name that stands for an id in paths: the id as it is, as
// the contract wants it, unless that is not fit to be a name on every system, in
// a shell and inside a reference (a path, a huge text, a look-alike of a hash).
// Then tools.Token hashes it. A plain name that is no token can not collide with
// a hash: hashes are tokens.
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

// isPlainName: file systems that take é written in two ways for one name get it
// in one way only.
func isPlainName(id string) bool {
	return len(id) <= maxName && utf8.ValidString(id) && norm.NFC.IsNormalString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !isPlain(r) }) &&
		!strings.ContainsRune("-. ", rune(id[0])) && !strings.HasSuffix(id, ".") && !strings.HasSuffix(id, " ") &&
		filepath.IsLocal(id)
}

// isPlain keeps out what is invisible, and of ASCII what separates paths or means
// something to a shell, to Windows or to a reference.
func isPlain(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("_.:@+=,%- ", r)
	}
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// sessionName is fileName for sessions.
func sessionName(session string) string {
	if session == "" {
		session = tools.DefaultSession
	}
	return fileName(session)
}
