package enter

import (
	"reflect"
	"testing"
)

// FuzzSpec decodes any text without a panic, and encodes and decodes any path exactly: a
// path must not add a rule.
func FuzzSpec(f *testing.F) {
	f.Add("/tmp\n1\n/etc\n", "")
	f.Add("a\x00b\\n\\0\\", (&Spec{Mounts: true}).Encode())
	f.Fuzz(func(t *testing.T, path, text string) {
		if _, err := Decode(text); err != nil && text == "" {
			return
		}
		want := &Spec{
			Mounts: true, Base: path, Mount: []Mount{{Kind: Writable, Path: path, From: path}}, Rules: []Rule{{Path: path, Access: Write64}},
			Landlock: 7, Limits: []Limit{{1, 2}}, Filter: path, Dir: path, First: true, MapUser: true, User: 1000, Group: 0, DieWithParent: true, Reap: true, Unconfined: true, Await: true, Unset: []string{path},
		}
		got, err := Decode(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		command := &Command{Argv: []string{path, text}, Env: []string{text, path}}
		if got, err := DecodeCommand(command.Encode()); err != nil || !reflect.DeepEqual(got, command) {
			t.Errorf("got %+v, %v, want %+v", got, err, command)
		}
		_, _ = DecodeCommand(text)
	})
}

// Write64 is a large number.
const Write64 = 1<<64 - 1
