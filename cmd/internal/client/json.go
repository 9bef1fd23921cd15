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
var listFields = []string{"artifacts", "tasks", "tools", "approvals"}

// notes are the fields of a list that say what it leaves out.
var notes = map[string]string{
	"omitted":    "stevedore: %s more are not in this list",
	"incomplete": "stevedore: too many calls are queued to check all of them; some may be missing%.0s",
	"next":       "stevedore: there may be more: continue with --after %s",
}

// printJSON prints an answer in the shape of all commands: the items of a list one per
// line, or one object, without the text for models. What a list leaves out is a note on stderr.
func printJSON(out, stderr io.Writer, body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	for _, name := range listFields {
		var items []json.RawMessage
		if list, ok := fields[name]; !ok || json.Unmarshal(list, &items) != nil {
			continue
		}
		for name, note := range notes {
			if value, ok := fields[name]; ok {
				_ = cli.Line(stderr, note, strings.Trim(string(value), `"`)) // it is lost if stderr is closed
			}
		}
		return cli.JSONLines(out, items)
	}
	return cli.JSON(out, json.RawMessage(withoutText(body)))
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
