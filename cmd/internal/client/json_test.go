package client

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// The items of a list are one per line, and a note says what the list leaves out.
func TestPrintList(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, out, notes string }{
		{`{"text":"x","tasks":[{"id":1},{"id":2}]}`, "{\"id\":1}\n{\"id\":2}\n", ""},
		{`{"tasks":[{"id":1}],"omitted":7}`, "{\"id\":1}\n", "stevedore: 7 more are not in this list\n"},
		{`{"tasks":[],"next":"c17"}`, "", "stevedore: there may be more: continue with --after c17\n"},
		{`{"tasks":[],"incomplete":true}`, "", "stevedore: too many calls are queued to check all of them; some may be missing\n"},
		{`{"text":"x","id":1}`, "{\"id\":1}\n", ""},
	} {
		var out, notes bytes.Buffer
		cmd := new(cobra.Command)
		cmd.SetOut(&out)
		cmd.SetErr(&notes)
		o := Options{JSON: true}
		if err := o.Print(cmd, []byte(test.body)); err != nil || out.String() != test.out || notes.String() != test.notes {
			t.Errorf("%s: %q, %q, %v", test.body, out.String(), notes.String(), err)
		}
	}
}
