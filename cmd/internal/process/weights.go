package process

import (
	"path"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// setWeights reads --session-weight. The first pattern that matches a session counts.
func (o *Options) setWeights() error {
	patterns, weights := make([]string, len(o.Weights)), make([]float64, len(o.Weights))
	for i, text := range o.Weights {
		pattern, number, _ := strings.Cut(text, "=")
		weight, err := strconv.ParseFloat(number, 64)
		if _, bad := path.Match(pattern, ""); err != nil || bad != nil || pattern == "" || !(weight >= 0.01 && weight <= 100) {
			return cli.Exit(cli.ExitUsage, "--session-weight %q: want SESSION=WEIGHT with a weight from 0.01 to 100, such as batch-*=0.2", text)
		}
		patterns[i], weights[i] = pattern, weight
	}
	if len(patterns) == 0 {
		return nil
	}
	o.Worker.Weight = func(session string) float64 {
		for i, pattern := range patterns {
			if ok, _ := path.Match(pattern, session); ok { // it was checked
				return weights[i]
			}
		}
		return 1
	}
	return nil
}
