package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// listFields are the fields of the answers that are lists.
var listFields = []string{"artifacts", "tasks", "tools", "approvals", "dead", "sessions", "used", "jobs"}

// notes are the fields of a list that say what it leaves out.
var notes = map[string]string{
	"omitted":    "stevedore: %s more are not in this list",
	"incomplete": "stevedore: too many calls are queued to check all of them; some may be missing%.0s",
	"next":       "stevedore: there may be more: continue with --after %s",
	"damaged":    "stevedore: damaged records of artifacts, which are not in this list: %s",
}

// answerFields are the fields of an answer.
type answerFields map[string]json.RawMessage

// items are those of a list. ok is false if the answer is none.
func (f answerFields) items() (items []json.RawMessage, ok bool) {
	for _, name := range listFields {
		if list, found := f[name]; found && json.Unmarshal(list, &items) == nil {
			return items, true
		}
	}
	return nil, false
}

// note prints what a list leaves out.
func (f answerFields) note(stderr io.Writer) {
	var count int
	if items, _ := f.items(); json.Unmarshal(f["count"], &count) == nil && len(items) < count {
		fmt.Fprintf(stderr, "These are %d of %d artifacts.", len(items), count)
		if next := string(f["next_offset"]); next != "" {
			fmt.Fprintf(stderr, " There are older ones: continue with --offset %s.", next)
		}
		fmt.Fprintln(stderr)
	}
	for name, text := range notes {
		if value := strings.Trim(string(f[name]), `"`); value != "" && value != "0" {
			_ = cli.Line(stderr, text, value) // it is lost if stderr is closed
		}
	}
}

// withoutText removes the field text, which the service puts first, from an object.
func withoutText(object []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(object))
	var value json.RawMessage
	if _, err := d.Token(); err != nil {
		return object
	}
	if name, err := d.Token(); err != nil || name != "text" || d.Decode(&value) != nil {
		return object
	}
	rest := bytes.TrimLeft(object[d.InputOffset():], ", \n")
	return append([]byte("{"), rest...)
}
