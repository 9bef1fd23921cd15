package hosts

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Server is an MCP server in a configuration file.
type Server struct {
	Name string
	// Project is the directory of the project that the server belongs to, in a file
	// that has servers of several projects. It is empty for all others.
	Project string
	// Command is the command with its arguments, or nil if Left says why there is none.
	Command []string
	// Left says why the server is left alone, in words that follow its name; empty if
	// it is wrapped or can be.
	Left string
	// Wrapped tells that the command is the proxy.
	Wrapped bool

	path          []string // of keys, to the server
	owner         *node    // the table that holds the command
	command, args *node    // args is nil if there is no such member
}

// servers returns the servers of a file, in its order. The error says why the file as a
// whole is not understood.
func (l Location) servers(data []byte) (all []Server, err error) {
	root, err := l.host.format.tree(data)
	if err != nil {
		return nil, err
	}
	for _, pattern := range l.keys {
		if err := walk(root, pattern, nil, func(n *node, path []string) error {
			found, err := l.serversIn(n, path)
			all = append(all, found...)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// walk calls f for each node whose keys match the pattern, in which "*" is any key.
func walk(n *node, pattern, path []string, f func(*node, []string) error) error {
	if len(pattern) == 0 {
		return f(n, path)
	}
	if n.kind != table {
		return nil
	}
	for _, child := range n.children {
		if pattern[0] != "*" && pattern[0] != child.key {
			continue
		}
		if _, err := n.get(child.key); err != nil {
			return err
		}
		if err := walk(child, pattern[1:], append(slices.Clip(path), child.key), f); err != nil {
			return err
		}
	}
	return nil
}

func (l Location) serversIn(n *node, path []string) (all []Server, err error) {
	if n.kind != table {
		return nil, fmt.Errorf("%q is not an object with servers", strings.Join(path, "."))
	}
	for _, child := range n.children {
		if _, err := n.get(child.key); err != nil {
			return nil, err
		}
		if slices.Contains(l.host.reserved, child.key) && !isServer(child) {
			continue
		}
		s := Server{Name: child.key, path: append(slices.Clip(path), child.key)}
		if len(path) > 2 {
			s.Project = path[1]
		}
		if err := s.read(child, l.host); err != nil {
			s.Left = err.Error()
		}
		all = append(all, s)
	}
	return all, nil
}

// isServer tells a server from a group of servers or a setting beside them.
func isServer(n *node) bool {
	return n.kind == table && slices.ContainsFunc(n.children, func(c *node) bool {
		return (c.key == "type" || c.key == "command" || c.key == "url") && c.kind != table
	})
}

var errRemote = errors.New("is at a URL, to which the host itself signs in")

// read fills in the command. The error says why the server is left alone.
func (s *Server) read(n *node, h *Host) error {
	if n.kind != table {
		return errors.New("is not an object")
	}
	members := map[string]*node{}
	for _, child := range n.children {
		if members[child.key] != nil {
			return fmt.Errorf("has the key %q twice", child.key)
		}
		members[child.key] = child
	}
	s.owner, s.command, s.args = n, members[h.command], members["args"]
	if s.command != nil && s.command.kind == table { // Zed before 0.219
		var err error
		s.owner = s.command
		if s.args, err = s.owner.get("args"); err != nil {
			return err
		}
		if s.command, err = s.owner.get("path"); err != nil {
			return err
		}
	}
	if s.command == nil {
		for _, key := range []string{"url", "uri", "httpUrl", "serverUrl", "tcp"} {
			if members[key] != nil {
				return errRemote
			}
		}
		return errors.New("has no command")
	}
	if err := s.readArgv(); err != nil {
		return err
	}
	return s.check(members)
}

// readArgv reads the command with its arguments.
func (s *Server) readArgv() error {
	var rest []string
	switch ok := true; {
	case s.command.kind == list:
		if rest, ok = s.command.texts(); !ok || len(rest) == 0 || s.args != nil {
			return errors.New("has a command that is not a list of strings")
		}
		s.Command = rest
		return nil
	case s.command.kind != text:
		return errors.New("has a command that is not a plain string")
	case s.args != nil:
		if rest, ok = s.args.texts(); !ok {
			return errors.New("has arguments that are not a list of plain strings")
		}
	}
	s.Command = append([]string{s.command.text}, rest...)
	return nil
}

// check says why a server with a command cannot be wrapped, and sets Wrapped.
func (s *Server) check(members map[string]*node) error {
	program := s.Command[0]
	if s.Wrapped = wrapStart(s.Command) >= 0; s.Wrapped {
		return nil
	}
	if t := members["type"]; t != nil && !slices.Contains([]string{"", "stdio", "local"}, t.text) {
		return fmt.Errorf("has the type %q", t.text)
	}
	if program == "" {
		return errors.New("has an empty command")
	}
	if strings.ContainsAny(program, " \t") && !strings.ContainsAny(program, `/\`) {
		return errors.New("has a command with spaces, which only a shell understands; move the arguments into its list")
	}
	if isStevedore(program) && len(s.Command) > 1 && s.Command[1] == "mcp" {
		return errors.New("is Stevedore itself, which keeps big results out of the prompt")
	}
	for _, key := range []string{"env", "environment", "envs", "env_vars", "env_keys"} {
		if name := hidden(members[key]); name != "" {
			return fmt.Errorf("needs the variable %s, which the proxy does not pass on", name)
		}
	}
	return nil
}

// hidden returns a name of a variable that the proxy keeps from the server, or "".
func hidden(n *node) string {
	if n == nil {
		return ""
	}
	for _, child := range n.children {
		if name := child.key + child.text; n.kind == list && HiddenName(name) {
			return name
		}
		if HiddenName(child.key) {
			return child.key
		}
	}
	return ""
}

// HiddenName reports whether a variable has a setting of Stevedore or NATS, which may be a credential and is not for the server.
func HiddenName(name string) bool {
	return strings.HasPrefix(name, "STEVEDORE_") || strings.HasPrefix(name, "NATS_")
}

// wrapStart returns the index of the proxy's program in a command, or -1. The program may
// stand behind another one, such as docker.
func wrapStart(command []string) int {
	for i := range len(command) - 2 {
		if command[i+1] == "mcp" && command[i+2] == "wrap" && (i == 0 || isStevedore(command[i])) {
			return i
		}
	}
	return -1
}

func isStevedore(program string) bool {
	name := filepath.Base(strings.ReplaceAll(program, `\`, "/"))
	return strings.HasPrefix(strings.ToLower(name), "stevedore")
}
