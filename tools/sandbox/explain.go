package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Refusal says what the sandbox refused. The text is for people and models; a program that knows
// how an operator can allow it adds that.
type Refusal string

// Refusals.
const (
	NoNetwork  Refusal = "commands have no network"
	Protected  Refusal = "commands and tools can only read .git and the settings of editors and agents, because programs execute what is there"
	ReadOnly   Refusal = "commands can write only the workspace, TMPDIR and HOME"
	Unreadable Refusal = "commands can read only the system, the workspace, TMPDIR and HOME"
	Hidden     Refusal = "the sandbox hides programs and files outside of the system and the workspace, such as a toolchain in another directory"
	OpenFiles  Refusal = "a process can open only so many files"
	FileSize   Refusal = "a file can have only so many bytes"
	Processes  Refusal = "a command can have only so many processes"
	CPUTime    Refusal = "a process can use only so much CPU time"
)

// refusals are what programs print if the sandbox refuses something.
var refusals = []struct {
	pattern lazyregexp.Regexp
	refusal Refusal
}{
	{lazyregexp.New(`(?i)network is unreachable|could not resolve|name resolution|temporary failure in name|no such host|enotfound|eai_again|nodename nor servname|failed to lookup address|unable to resolve host|name or service not known|could not connect to server|connection refused|econnrefused|socket.*permission denied`), NoNetwork},
	{lazyregexp.New(`(?i)(` + strings.ReplaceAll(strings.Join(executed, "|"), ".", `\.`) + `)\b.*(read-only file system|device or resource busy)`), Protected},
	{lazyregexp.New(`(?i)read-only file system|erofs|device or resource busy|ebusy`), ReadOnly},
	{lazyregexp.New(`(?i)permission denied|eacces|operation not permitted|eperm`), Unreadable},
	{lazyregexp.New(`(?i)too many open files|emfile`), OpenFiles},
	{lazyregexp.New(`(?i)file too large|efbig|file size limit exceeded`), FileSize},
	{lazyregexp.New(`(?i)cannot fork|can't fork|fork: (retry|resource)|resource temporarily unavailable|eagain|failed to create new os thread|unable to create.*thread`), Processes},
}

// missing matches the names of programs and files that a program did not find.
var missing = lazyregexp.New(`(?im)([^\s:'"]+)['"]?: (?:command )?not found|([^\s:'"]+)['"]?: no such file or directory|no such file or directory: ['"]?([^\s:'"]+)`)

// explained is how much of the end of the output is searched, in bytes.
const explained = 4 << 10

// hides reports whether the sandbox hides a file, or a program that the worker itself
// finds. It does not tell whether a file exists.
func (s *Sandbox) hides(name string) bool {
	if !filepath.IsAbs(name) {
		path, err := exec.LookPath(name)
		return err == nil && filepath.IsAbs(path)
	}
	visible := append([]string{"/usr", "/bin", "/sbin", "/lib", "/etc", "/dev", "/proc", os.TempDir(), s.cfg.Workspace, s.home, s.tmp}, s.cfg.Read...)
	return !slices.ContainsFunc(append(visible, s.cfg.Write...), func(dir string) bool { return within(name, dir) })
}

// Explain returns what the sandbox refused to a failed command, judging by its exit code
// and the end of its output. It is empty if nothing suggests the sandbox.
func (s *Sandbox) Explain(output string, exitCode int) (found []Refusal) {
	if s.cfg.Mode == Off || exitCode == 0 {
		return nil
	}
	switch exitCode {
	case 128 + 24: // SIGXCPU
		return []Refusal{CPUTime}
	case 128 + 25: // SIGXFSZ
		return []Refusal{FileSize}
	}
	output = output[max(len(output)-explained, 0):]
	for _, r := range refusals {
		applies := r.refusal != NoNetwork || !s.cfg.Network
		if applies && !(r.refusal == ReadOnly && slices.Contains(found, Protected)) && r.pattern.MatchString(output) {
			found = append(found, r.refusal)
		}
	}
	for _, match := range missing.FindAllStringSubmatch(output, 8) {
		if s.hides(match[1] + match[2] + match[3]) {
			return append(found, Hidden)
		}
	}
	return found
}
