package sandbox_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// BenchmarkCommand measures what the sandbox adds to a command: rounds of 20 commands in it, one
// directly after the other, alternate with rounds of 20 plain ones. The medians say more than the means, because other processes disturb some
// runs.
func BenchmarkCommand(b *testing.B) {
	const round = 20
	for _, variant := range []struct {
		name string
		cfg  sandbox.Config
	}{
		{"namespaces", sandbox.Config{}},
		{"landlock", sandbox.Config{NoNamespaces: true, Mode: sandbox.BestEffort}},
	} {
		b.Run(variant.name, func(b *testing.B) {
			variant.cfg.Workspace, variant.cfg.State = b.TempDir(), b.TempDir()
			s, err := sandbox.New(variant.cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var plain, confined []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				if i/round%2 == 0 {
					if err := exec.Command("/bin/true").Run(); err != nil {
						b.Fatal(err)
					}
					plain = append(plain, time.Since(start))
					continue
				}
				cmd, err := s.Command(b.Context(), sandbox.Run{}, "/bin/true")
				if err == nil {
					err = cmd.Run()
				}
				if err != nil {
					b.Fatal(err)
				}
				confined = append(confined, time.Since(start))
			}
			b.ReportMetric(median(plain), "ms/plain")
			b.ReportMetric(median(confined), "ms/sandbox")
			b.ReportMetric(median(confined)-median(plain), "ms/overhead")
		})
	}
}

// median returns a median in milliseconds.
func median(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[len(times)/2]) / 1e6
}
