// Package cursor encodes where an answer about an artifact continues. To a reader, the
// text is opaque.
package cursor

import (
	"fmt"

	"github.com/stevedore-bus/stevedore/tools"
)

// Place is a place in an artifact.
type Place struct {
	Byte int64
	// More is how many results of the query to leave out at Byte, or the last line to
	// show.
	More int64
}

func (p Place) String() string { return fmt.Sprintf("at%d+%d", p.Byte, p.More) }

// Parse is the inverse of String for an artifact of size bytes. An empty text is its start.
func Parse(text string, size int64) (p Place, err error) {
	if text == "" {
		return Place{}, nil
	}
	if _, err := fmt.Sscanf(text, "at%d+%d", &p.Byte, &p.More); err != nil || p.String() != text || p.Byte < 0 || p.Byte > size || p.More < 0 {
		return Place{}, tools.Errorf(tools.CodeInvalidArguments, "the cursor %.80q is not one that an answer about this artifact gave; "+
			"omit it to begin at the start", text)
	}
	return p, nil
}
