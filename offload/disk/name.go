package disk

import (
	"crypto/sha256"
	"encoding/base32"
	"os"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	blobDir       = ".blobs"
	recordPrefix  = "."
	recordSuffix  = ".artifact.json"
	contentSuffix = ".md"
)

func (s *tree) contentPath(session, id string) string {
	return fileName(session, s.caseInsensitive) + "/" + fileName(id, s.caseInsensitive) + contentSuffix
}

func (s *tree) recordPath(session, id string) string {
	return fileName(session, s.caseInsensitive) + "/" + recordPrefix + fileName(id, s.caseInsensitive) + recordSuffix
}

// caseInsensitive tests whether the file system treats "a" and "A" as the same name. It writes
// nothing, so that a store on a read-only disk can be read.
func (d *dir) caseInsensitive() (bool, error) {
	lower, err := d.Root.Stat(blobDir)
	if err != nil {
		return false, err
	}
	upper, err := d.Root.Stat(strings.ToUpper(blobDir))
	return err == nil && os.SameFile(lower, upper), nil
}

// fileName returns the file name of a token. On a case-insensitive file system, a token
// with upper-case letters gets a suffix that makes its name unique. No token contains
// such a suffix.
func fileName(token string, caseInsensitive bool) string {
	if !caseInsensitive || token == strings.ToLower(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return token + caseMark + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
}

// caseMark is in no token.
const caseMark = "~"

// isFileName reports whether fileName may have returned the name.
func isFileName(name string) bool {
	token, _, _ := strings.Cut(name, caseMark)
	return tools.IsToken(token)
}

// isRecord reports whether a file may be a record.
func isRecord(file string) bool {
	id, hidden := strings.CutPrefix(file, recordPrefix)
	id, ok := strings.CutSuffix(id, recordSuffix)
	return hidden && ok && isFileName(id)
}
