package disk

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

// recordName finds the artifact that a file in a session's directory is the
// record of, by the name that its files have there.
func recordName(file string) (id string, ok bool) {
	id, hidden := strings.CutPrefix(file, recordPrefix)
	id, ok = strings.CutSuffix(id, recordSuffix)
	return id, hidden && ok && isDiskName(id)
}

// contentName does so for a content.
func contentName(file string) (id string, ok bool) {
	id, ok = strings.CutSuffix(file, contentSuffix)
	return id, ok && isDiskName(id)
}
