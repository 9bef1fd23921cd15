package commands

import "testing"

// The arguments of a call are shown as the page shows them, and as they are if only their start is there.
func TestAsked(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"echo 0 >> x"}`:             "echo 0 >> x",
		`{"path":"a","n":[1,{"b":2}],"m":null}`: `path: a  n: [1,{"b":2}]  m: null`,
		`{"n":1}`:                               "n: 1",
		`{}`:                                    "",
		``:                                      "",
		`["a"]`:                                 `["a"]`,
		`{"path":"a","content":"cut of…`:        `{"path":"a","content":"cut of…`,
		`{"path"`:                               `{"path"`,
	} {
		if got := asked(args); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
