package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// refusals are what programs print if the sandbox refuses something.
var refusals = []struct {
	pattern *regexp.Regexp
	note    string
	applies func(c Config) bool
}{
	{regexp.MustCompile(`(?i)network is unreachable|could not resolve|name resolution|temporary failure in name|no such host|enotfound|eai_again|nodename nor servname|failed to lookup address|unable to resolve host|name or service not known|could not connect to server|connection refused|econnrefused|socket.*permission denied`),
		"commands have no network; --shell-network of the worker allows it", func(c Config) bool { return !c.Network }},
	{regexp.MustCompile(`(?i)read-only file system|erofs|device or resource busy|ebusy`),
		"commands can write only the workspace, without .git/config and .git/hooks, and TMPDIR and HOME; --shell-write PATH of the worker allows more", nil},
	{regexp.MustCompile(`(?i)permission denied|eacces|operation not permitted|eperm`),
		"commands can read only the system, the workspace, TMPDIR and HOME; --shell-read PATH and --shell-write PATH of the worker allow more", nil},
	{regexp.MustCompile(`(?i)too many open files|emfile`), "a process can open only so many files; --shell-open-files of the worker changes it", nil},
	{regexp.MustCompile(`(?i)file too large|efbig|file size limit exceeded`), "a file can have only so many bytes; --shell-file-size of the worker changes it", nil},
	{regexp.MustCompile(`(?i)cannot fork|can't fork|fork: (retry|resource)|resource temporarily unavailable|eagain|failed to create new os thread|unable to create.*thread`),
		"a command can have only so many processes; --shell-processes of the worker changes it", nil},
}

// missing matches the names of programs and files that a program did not find.
var missing = regexp.MustCompile(`(?im)([^\s:'"]+)['"]?: (?:command )?not found|([^\s:'"]+)['"]?: no such file or directory|no such file or directory: ['"]?([^\s:'"]+)`)

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
// and the end of its output, and the flag that allows it. It is empty if nothing
// suggests the sandbox.
func (s *Sandbox) Explain(output string, exitCode int) string {
	if s.cfg.Mode == Off || exitCode == 0 {
		return ""
	}
	switch exitCode {
	case 128 + 24: // SIGXCPU
		return "a process can use only so much CPU time; --shell-cpu of the worker changes it"
	case 128 + 25: // SIGXFSZ
		return "a file can have only so many bytes; --shell-file-size of the worker changes it"
	}
	output = output[max(len(output)-explained, 0):]
	var notes []string
	for _, r := range refusals {
		if (r.applies == nil || r.applies(s.cfg)) && r.pattern.MatchString(output) {
			notes = append(notes, r.note)
		}
	}
	for _, found := range missing.FindAllStringSubmatch(output, 8) {
		if s.hides(found[1] + found[2] + found[3]) {
			notes = append(notes, "the sandbox hides programs and files outside of the system and the workspace; --shell-read PATH of the worker shows them, such as a toolchain in another directory")
			break
		}
	}
	return strings.Join(notes, "; ")
}
