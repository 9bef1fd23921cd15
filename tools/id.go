package tools

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// MaxIDLen is the longest id, in bytes, that is accepted from outside. Longer
// ones are a caller's mistake (or an attack) and are refused with an error.
const MaxIDLen = 16 << 10

// maxTokenLen keeps every token usable as a NATS subject token, a KV key and a
// file name. The longest subject stays far below the 4,096-byte control line.
const maxTokenLen = 64

// hashPrefix marks tokens that stand for an id that was not safe itself.
const hashPrefix = "h_"

var tokenEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// Token returns the safe form of an id that came from outside: an id of a call,
// a session, or anything else that becomes part of a subject, a key, a file
// name or a log line. A safe id, [A-Za-z0-9_-]{1,64} not starting with '-', is
// its own token; any other becomes "h_" and a hash of it, in lower case.
//
// Distinct ids have distinct tokens: an id that looks like a hash token is
// hashed as well. Token is idempotent only on safe ids; apply it once, to the
// id as it came.
func Token(id string) string {
	if IsToken(id) && !hasHashPrefix(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hashPrefix + tokenEncoding.EncodeToString(sum[:20])
}

// TokenOf returns the token for an id or for a token: a user may give either. It
// returns an id that looks like a token unchanged.
func TokenOf(id string) string {
	if IsToken(id) {
		return id
	}
	return Token(id)
}

// TokenForm says in error texts what IsToken wants.
const TokenForm = "[A-Za-z0-9_-]{1,64}, not beginning with -"

// IsToken reports whether s may stand in a subject, a key or a file name.
func IsToken(s string) bool {
	if s == "" || len(s) > maxTokenLen || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return true
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// hasHashPrefix folds case, because a disk may.
func hasHashPrefix(id string) bool {
	return len(id) >= len(hashPrefix) && strings.EqualFold(id[:len(hashPrefix)], hashPrefix)
}
