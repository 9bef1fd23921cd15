package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// DefaultMode is the mode of this system.
const DefaultMode = Required

const sandboxExec = "/usr/bin/sandbox-exec"

// platform runs commands with sandbox-exec. This code is built and vetted for macOS, but
// not tested there.
type platform struct{ works bool }

func (p *platform) open(s *Sandbox) error {
	if s.cfg.Mode == Off {
		return nil
	}
	err := exec.Command(sandboxExec, "-p", profile(s, nil, s.tmp), "/usr/bin/true").Run()
	p.works = err == nil
	if err != nil && s.cfg.Mode == Required {
		return fmt.Errorf("%w: sandbox-exec does not work: %w", ErrUnconfined, err)
	}
	return nil
}

func (p *platform) protection() Protection {
	if !p.works {
		return Protection{Missing: []string{"sandbox-exec does not work, so a command has all rights of the worker"}}
	}
	return Protection{
		Files: true, Network: true, Protected: true, Processes: os.Getuid() == 0, Root: os.Getuid() == 0, Layers: []string{"sandbox-exec"},
		Missing: []string{"macOS has no PID namespaces, so a process that leaves its group outlives the command"},
	}
}

func (p *platform) command(ctx context.Context, s *Sandbox, run Run, protected []string, tmp string, argv []string) (*exec.Cmd, error) {
	if p.works {
		argv = append([]string{sandboxExec, "-p", profile(s, protected, tmp)}, argv...)
	}
	return s.unconfined(ctx, run, tmp, argv), nil
}

// profile returns the rules of sandbox-exec. The last rule that matches applies.
func profile(s *Sandbox, protected []string, tmp string) string {
	var b strings.Builder
	rule := func(action string, paths ...string) {
		for _, path := range paths {
			fmt.Fprintf(&b, "(%s (subpath \"%s\"))\n", action, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path))
		}
	}
	b.WriteString("(version 1)\n(allow default)\n(deny file-write*)\n(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\"))\n")
	rule("deny file-read*", "/Users", "/Volumes", "/private/tmp", "/private/var/folders")
	rule("allow file-read*", s.cfg.Read...)
	rule("allow file-read* file-write*", s.cfg.Workspace, s.home, tmp)
	rule("deny file-read* file-write*", s.cfg.Hide...)
	rule("allow file-read* file-write*", s.home, tmp)
	rule("deny file-write*", protected...)
	rule("allow file-read* file-write*", s.cfg.Write...)
	if !s.cfg.Network {
		b.WriteString("(deny network*)\n")
	}
	return b.String()
}
