package artifacts

import (
	"crypto/rand"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// NewID returns a new id of a call of a tool. It tells models and people where a result
// came from.
func NewID(tool string) string {
	name := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && tools.IsToken("a"+string(r)) {
			return r
		}
		return '_'
	}, tools.Excerpt(tool, 40))
	if name == "" || name[0] == '-' || strings.HasPrefix(strings.ToLower(name), "h_") {
		name = "result_" + name
	}
	return name[:min(len(name), 48)] + "_" + strings.ToLower(rand.Text()[:12])
}
