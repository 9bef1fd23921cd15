package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	adapters "github.com/stevedore-bus/stevedore/integration/hosts"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// shellServer is the name of the adapter for the shell of a host among its servers.
const shellServer = "(shell)"

// adapterFile is a file of the adapter for the shell of a host.
type adapterFile struct {
	top  string // the directory that stays although it is empty
	path string
	text []byte // that it shall have
	own  bool   // no other program has a file of this path, but a person may
}

// adapterState is what a file of an adapter is; for all files together, the largest one counts.
type adapterState int

const (
	adapterPresent  adapterState = iota
	adapterSimilar               // it calls another program, or one with other flags
	adapterOutdated              // another release wrote it, or some files are missing
	adapterMissing
	adapterForeign // the file has other content
)

func (s adapterState) String() string {
	return []string{"installed", "installed for another program or other data", "outdated", "not installed",
		"left alone: the file has other content"}[s]
}

// hookCall matches a call of this program in a file: in a line of a shell, and in JavaScript.
var hookCall = lazyregexp.New(`stevedore hook ([a-z-]+)|"stevedore", \["hook", "([a-z-]+)"\]`)

// hookLine matches the lines of installed files that call a program.
var hookLine = lazyregexp.New(`hook("?, "?| )(claude-code|codex|gemini-cli|opencode|pi)\b`)

// adapterFiles returns the files of the adapter of a host, which call a program with flags.
func adapterFiles(host *hosts.Host, m hosts.Machine, program string, flags ...string) (files []adapterFile, err error) {
	home, dir := host.Adapter(m)
	if dir == "" {
		return nil, nil
	}
	top := home
	usual := hosts.Machine{OS: m.OS, Home: m.Home, Getenv: func(string) string { return "" }}
	if dir, _ := host.Adapter(usual); dir == home { // otherwise a variable leads to it, and some hosts want it to exist
		top = m.Home
	}
	argv := append([]string{program, "hook", host.Name}, flags...)
	err = fs.WalkDir(adapters.Files, host.Name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := adapters.Files.ReadFile(name)
		path := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, host.Name+"/")))
		files = append(files, adapterFile{top, path, hookCall.ReplaceAllFunc(text, func(call []byte) []byte {
			return callOf(argv, call[0] == '"')
		}), strings.Contains(path[len(home):], "stevedore")})
		return err
	})
	return files, err
}

// callOf returns a call of a program as JavaScript, or as a line of a shell within a JSON string.
func callOf(argv []string, script bool) []byte {
	quote := func(v any) []byte {
		text, _ := json.Marshal(v) // strings have a JSON form
		return text
	}
	if script {
		return slices.Concat(quote(argv[0]), []byte(", "), bytes.ReplaceAll(quote(argv[1:]), []byte(`","`), []byte(`", "`)))
	}
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = cli.ShellWord(word)
	}
	return bytes.Trim(quote(strings.Join(words, " ")), `"`)
}

// state compares the file with the text that it shall have.
func (f adapterFile) state() (adapterState, error) {
	text, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return adapterMissing, nil
	case err != nil:
		return adapterForeign, err
	case bytes.Equal(text, f.text):
		return adapterPresent, nil
	}
	same := func(a, b []byte) bool { return bytes.Equal(a, b) || hookLine.Match(a) && hookLine.Match(b) }
	switch {
	case slices.EqualFunc(slices.Collect(bytes.Lines(text)), slices.Collect(bytes.Lines(f.text)), same):
		return adapterSimilar, nil
	case f.own && bytes.Contains(text, []byte("stevedore")):
		return adapterOutdated, nil
	}
	return adapterForeign, nil
}

// stateOfAdapter is the state of all files together.
func stateOfAdapter(files []adapterFile) (state adapterState, err error) {
	missing := 0
	for _, f := range files {
		one, err := f.state()
		if err != nil {
			return one, err
		}
		if one == adapterMissing {
			one = adapterOutdated
			missing++
		}
		state = max(state, one)
	}
	if missing == len(files) {
		return adapterMissing, nil
	}
	return state, nil
}

// hookProgram matches the JSON string with the program that calls a hook, in a line of a shell or in JavaScript alone.
var hookProgram = lazyregexp.New(`(?:"command": |execFile\()("(?:[^"\\]|\\.)*")`)

// programOf returns the program that the files call, or "".
func programOf(files []adapterFile) (program string) {
	for _, f := range files {
		text, _ := os.ReadFile(f.path) // stateOfAdapter has read it, and reports what it could not read
		if found := hookProgram.FindSubmatch(text); found != nil && json.Unmarshal(found[1], &program) == nil {
			break
		}
	}
	program, _, _ = strings.Cut(program, " hook ")
	return strings.ReplaceAll(strings.Trim(program, "'"), `'\''`, "'") // see cli.ShellWord
}

// change writes the file, or removes it and the directories that are empty then.
func (f adapterFile) change(install bool) error {
	if install {
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.path), 0o755), hosts.RemoveTemps(f.path)); err != nil {
			return err
		}
		return durable.WriteFile(f.path, f.text, 0o644)
	}
	err := os.Remove(f.path)
	_ = hosts.RemoveTemps(f.path) // the directory may be missing
	for dir := filepath.Dir(f.path); dir != f.top && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// changeAdapter installs or removes the adapter of a host, and returns what it did.
func changeAdapter(files []adapterFile, install, dryRun bool) (line changedServer, err error) {
	line = changedServer{Server: shellServer, File: files[0].path}
	state, err := stateOfAdapter(files)
	if err != nil {
		return line, err
	}
	switch {
	case state == adapterForeign && files[0].own:
		line.Reason = "one of its files is not of Stevedore; move it away"
	case state == adapterForeign && install:
		line.Reason = "the file has other content; let a hook for PreToolUse of Bash run: stevedore hook codex || exit 0" // the only file with the name of another's
	case state == adapterForeign:
		line.Reason = "the file has other content; remove the hook by hand if it is there"
	case install && state == adapterPresent:
		line.Reason = "is installed already"
	case !install && state == adapterMissing:
		line.Reason = "is not installed"
	default:
		line.Changed = true
	}
	for _, f := range files {
		if (line.Changed || state == adapterMissing) && !dryRun { // a process that died may have left temporary files
			err = errors.Join(err, f.change(install))
		}
	}
	return line, err
}
