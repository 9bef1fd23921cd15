package commands

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// plugin is what the nats CLI reads of a plugin: ApplicationModel and CmdModel of fisk.
type plugin struct {
	Name, Help string
	Args       []pluginFlag
	Flags      []pluginFlag
	Commands   []plugin
}

type pluginFlag struct {
	Name                string
	Short               rune
	Boolean, Cumulative bool
}

func (p plugin) command(t *testing.T, path ...string) plugin {
	t.Helper()
	for _, name := range path {
		i := slices.IndexFunc(p.Commands, func(c plugin) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("no command %v", path)
		}
		p = p.Commands[i]
	}
	return p
}

func (p plugin) flag(t *testing.T, name string) pluginFlag {
	t.Helper()
	i := slices.IndexFunc(p.Flags, func(f pluginFlag) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("%s: no flag %s", p.Name, name)
	}
	return p.Flags[i]
}

func TestNATSPluginModel(t *testing.T) {
	t.Setenv("STEVEDORE_SERVR", "x") // would be a warning, which would spoil the JSON
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{cli.NATSPluginFlag}, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit code %d, %s", code, stderr.String())
	}
	var root plugin
	if err := json.Unmarshal(stdout.Bytes(), &root); err != nil {
		t.Fatal(err)
	}
	// One mistake of these would make every command of nats fail.
	var check func(path string, p plugin)
	check = func(path string, p plugin) {
		if p.Help == "" || len(p.Commands) > 0 && len(p.Args)+len(p.Flags) > 0 || len(p.Args) > 1 {
			t.Errorf("%s: help %q, %d commands, %d arguments, %d flags", path, p.Help, len(p.Commands), len(p.Args), len(p.Flags))
		}
		seen := map[any]bool{"help": true, 's': true, 'h': true} // those of nats
		for _, f := range p.Flags {
			if seen[f.Name] || f.Name != "server" && f.Short != 0 && seen[f.Short] {
				t.Errorf("%s: flag --%s, -%c is there twice", path, f.Name, f.Short)
			}
			seen[f.Name] = true
			seen[f.Short] = true
		}
		for _, child := range p.Commands {
			check(path+" "+child.Name, child)
		}
	}
	check(root.Name, root)
	if call := root.command(t, "call"); !call.Args[0].Cumulative || !call.flag(t, "json").Boolean || call.flag(t, "wait").Boolean {
		t.Errorf("call: %+v", call)
	}
	root.command(t, "status").flag(t, "server") // nats passes its global flags if the command has them
	if up := root.command(t, "up"); !up.flag(t, "queue").Cumulative || up.flag(t, "heartbeat-enabled").Boolean {
		t.Error("up: --queue is a list, and --heartbeat-enabled=false must be possible")
	}
	if grep := root.command(t, "artifacts", "grep"); grep.flag(t, "ignore-case").Short != 'i' {
		t.Error("artifacts grep: no -i")
	}
	for _, c := range root.Commands {
		if c.Name == "run" || c.Name == "help" || c.Name == "connection" {
			t.Errorf("nats cannot run %s", c.Name)
		}
	}
}
