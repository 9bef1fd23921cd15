package sandbox_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// BenchmarkCommand measures what the sandbox adds to a command. The median says more than the
// mean, because other processes disturb some runs.
func BenchmarkCommand(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		median(b, func() error { return exec.Command("/bin/true").Run() })
	})
	for name, cfg := range map[string]sandbox.Config{"namespaces": {}, "landlock": {NoNamespaces: true, Mode: sandbox.BestEffort}} {
		b.Run(name, func(b *testing.B) {
			cfg.Workspace, cfg.State = b.TempDir(), b.TempDir()
			s, err := sandbox.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			median(b, func() error {
				cmd, err := s.Command(b.Context(), sandbox.Run{}, "/bin/true")
				if err == nil {
					err = cmd.Run()
				}
				return err
			})
		})
	}
}

func median(b *testing.B, run func() error) {
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e6, "ms/median")
}
