package tools

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// MaxIDLen is the longest id of a client, in bytes.
const MaxIDLen = 16 << 10

// maxTokenLen keeps every token valid as a NATS subject token, a KV key and a file
// name, and every subject far below the 4,096-byte control line.
const maxTokenLen = 64

// hashPrefix marks the tokens of ids that are not tokens themselves.
const hashPrefix = "h_"

const tokenDigits = "0123456789abcdefghijklmnopqrstuv"

var tokenEncoding = base32.NewEncoding(tokenDigits).WithPadding(base32.NoPadding)

// Token returns the safe form of an untrusted id (of a call, a session, ...) for
// subjects, keys, file names and log lines. An id of the form [A-Za-z0-9_-]{1,64}
// that does not start with '-' is its own token. The token of any other id is "h_" and
// its hash, in lower case.
//
// Distinct ids have distinct tokens: Token also hashes an id that looks like a hash
// token. So apply it once, to the original id.
func Token(id string) string {
	if IsToken(id) && !hasHashPrefix(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hashPrefix + tokenEncoding.EncodeToString(sum[:20])
}

// TokenOf returns the token for an id or for a token: a user may give either. It
// returns what looks like the hash of another id unchanged.
func TokenOf(id string) string {
	if IsHash(id) {
		return id
	}
	return Token(id)
}

// IsHash reports whether an id has the form of the token of another id, which cannot be told from
// the token.
func IsHash(id string) bool {
	return strings.HasPrefix(id, hashPrefix) && len(id) == len(Token("")) && strings.Trim(id[len(hashPrefix):], tokenDigits) == ""
}

// TokenForm describes a token in error messages.
const TokenForm = "[A-Za-z0-9_-]{1,64}, not beginning with -"

// IsToken reports whether s is safe in a subject, a key and a file name.
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

// hasHashPrefix ignores case, because some file systems do.
func hasHashPrefix(id string) bool {
	return len(id) >= len(hashPrefix) && strings.EqualFold(id[:len(hashPrefix)], hashPrefix)
}
