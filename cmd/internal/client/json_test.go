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
		{`{"sessions":[{"id":1}],"next":17}`, "{\"id\":1}\n", "stevedore: there may be more: continue with --after 17\n"},
		{`{"sessions":[{"id":1}],"next":0}`, "{\"id\":1}\n", ""},
		{`{"artifacts":[{"id":1}],"count":9}`, "{\"id\":1}\n", "These are 1 of 9 artifacts.\n"},
		{`{"artifacts":[{"id":1}],"count":9,"next_offset":6}`, "{\"id\":1}\n", "These are 1 of 9 artifacts. There are older ones: continue with --offset 6.\n"},
		{`{"artifacts":[{"id":1}],"count":1,"damaged":2}`, "{\"id\":1}\n", "stevedore: damaged records of artifacts, which are not in this list: 2\n"},
		{`{"action":"list","jobs":[{"id":1}],"next":"cron.b"}`, "{\"id\":1}\n", "stevedore: there may be more: continue with --after cron.b\n"},
		{`{"tasks":[],"incomplete":true}`, "", "stevedore: too many calls are queued to check all of them; some may be missing\n"},
		{`{"text":"x","id":1}`, "{\"id\":1}\n", ""},
	} {
		var out, notes bytes.Buffer
		cmd := new(cobra.Command)
		cmd.SetOut(&out)
		cmd.SetErr(&notes)
		answer := Answer[any]{Body: []byte(test.body)}
		if err := answer.Print(&Options{JSON: true}, cmd); err != nil || out.String() != test.out || notes.String() != test.notes {
			t.Errorf("%s: %q, %q, %v", test.body, out.String(), notes.String(), err)
		}
	}
}

// A table has the same notes as JSON.
func TestPrintTable(t *testing.T) {
	t.Parallel()
	var out, notes bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	answer := Answer[string]{Out: "shown", Body: []byte(`{"sessions":[],"next":17}`)}
	err := answer.Print(new(Options), cmd, func(cmd *cobra.Command, text string) error {
		cmd.Print(text)
		return nil
	})
	if err != nil || out.String()+notes.String() != "shownstevedore: there may be more: continue with --after 17\n" {
		t.Errorf("%q, %q, %v", out.String(), notes.String(), err)
	}
}
