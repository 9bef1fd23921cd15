package offload

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// foldsCase tries whether the disk takes "a" and "A" for one name.
func (d *diskDir) foldsCase() (bool, error) {
	name := rand.Text() // capitals
	f, err := d.root.Create(tempDir + "/" + name)
	if err != nil {
		return false, err
	}
	f.Close()
	_, err = d.root.Lstat(tempDir + "/" + strings.ToLower(name))
	return err == nil, d.root.Remove(tempDir + "/" + name)
}

// diskName is the file name of a token. Where the disk folds case, a token with
// capitals gets a suffix that no token has and that differs for tokens that the
// disk would take for one.
func diskName(token string, foldsCase bool) string {
	if !foldsCase || token == strings.ToLower(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return token + foldMark + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
}

// foldMark is in no token.
const foldMark = "~"

// isDiskName reports whether diskName may have made the name.
func isDiskName(name string) bool {
	token, _, _ := strings.Cut(name, foldMark)
	return tools.IsToken(token)
}

// isRecordName reports whether a file in a session's directory is a record.
func isRecordName(name string) bool {
	id, hidden := strings.CutPrefix(name, recordPrefix)
	id, ok := strings.CutSuffix(id, recordSuffix)
	return hidden && ok && isDiskName(id)
}
