package describe

import (
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Names gives the columns of a table names by which jq, SQL and a preview call them. They differ without regard to the
// case of letters, which SQLite ignores. The zero value works.
type Names struct {
	Renamed []string // says which columns have another name than in the source
	used    map[string]bool
}

// maxRenamed is how many renamed columns an answer names.
const maxRenamed = 3

// Add returns the name of column i, counted from 0, which has a name in the source or an empty one.
func (n *Names) Add(i int, name string) string {
	name = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimSpace(name), "\x00", ""), "\uFFFD")
	if name == "" {
		name = fmt.Sprintf("c%d", i+1)
	}
	name = tools.Excerpt(name, 100)
	free := n.Free(name)
	if free != name && len(n.Renamed) < maxRenamed {
		n.Renamed = append(n.Renamed, fmt.Sprintf("%q is called %q, because another column has this name; upper and lower case do not count", name, free))
	}
	return free
}

// Free returns a name that begins with name, and that no other column has.
func (n *Names) Free(name string) string {
	if n.used == nil {
		n.used = map[string]bool{}
	}
	free := name
	for i := 2; n.used[strings.ToLower(free)]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	n.used[strings.ToLower(free)] = true
	return free
}
