package sandbox

import "strings"

// Protection is what the system gives to commands.
type Protection struct {
	// Files: commands can use only the allowed files.
	Files bool
	// Network: commands cannot use the network, unless the configuration allows it.
	Network bool
	// Processes: commands cannot see other processes, and none outlives its command.
	Processes bool
	// Protected: paths such as .git are read-only for commands.
	Protected bool
	// Root: the worker runs as root.
	Root bool
	// Layers are the mechanisms in use, such as "Landlock 7" or "user namespace".
	Layers []string
	// Missing says, for each mechanism that the system refuses, what commands can
	// therefore do, and what enables it.
	Missing []string
}

// Confined reports whether the protection is enough for Required.
func (p Protection) Confined() bool {
	return p.Files && p.Network && (!p.Root || p.Processes && p.Protected)
}

// String describes the protection in one line.
func (p Protection) String() string {
	if len(p.Layers) == 0 {
		return "none"
	}
	return strings.Join(p.Layers, ", ")
}

// Protection returns what confines the commands of s.
func (s *Sandbox) Protection() Protection {
	if s.cfg.Mode == Off {
		return Protection{Missing: []string{"the sandbox is off, so a command has all rights of the worker"}}
	}
	return s.platform.protection()
}
