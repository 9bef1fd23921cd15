package process

import (
	"regexp"
	"testing"

	"github.com/spf13/pflag"
)

// The advice for what the sandbox refuses names flags that exist.
func TestShellAdviceNamesFlags(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	new(Options).AddFlags(flags)
	for refusal, advice := range shellAdvice {
		named := regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(advice, -1)
		if len(named) == 0 {
			t.Errorf("%s: %q names no flag", refusal, advice)
		}
		for _, flag := range named {
			if flags.Lookup(flag[1]) == nil {
				t.Errorf("%s: there is no flag --%s", refusal, flag[1])
			}
		}
	}
}
