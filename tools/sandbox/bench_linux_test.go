package sandbox_test

import (
	"os/exec"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// BenchmarkCommand measures what the sandbox adds to a command.
func BenchmarkCommand(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, cfg := range map[string]sandbox.Config{"namespaces": {}, "landlock": {NoNamespaces: true, Mode: sandbox.BestEffort}} {
		b.Run(name, func(b *testing.B) {
			cfg.Workspace, cfg.State = b.TempDir(), b.TempDir()
			s, err := sandbox.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				cmd, err := s.Command(b.Context(), sandbox.Run{}, "/bin/true")
				if err == nil {
					err = cmd.Run()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
