package process

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// parsePrices returns the prices of --price by model.
func (o *AgentOptions) parsePrices() (map[string]agent.Price, error) {
	prices := map[string]agent.Price{}
	for _, given := range o.prices {
		cut := strings.LastIndex(given, "=")
		if cut < 1 {
			return nil, cli.Exit(cli.ExitUsage, "--price %q: want SPEC=INPUT,OUTPUT or SPEC=INPUT,OUTPUT,CACHED, such as openai:gpt=2.5,10", given)
		}
		var numbers []float64
		for text := range strings.SplitSeq(given[cut+1:], ",") {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || !(n >= 0 && n < 1e9) {
				return nil, cli.Exit(cli.ExitUsage, "--price %q: %q is not a price", given, text)
			}
			numbers = append(numbers, n)
		}
		if len(numbers) != 2 && len(numbers) != 3 {
			return nil, cli.Exit(cli.ExitUsage, "--price %q: want two or three prices, and got %d", given, len(numbers))
		}
		price := agent.Price{Input: numbers[0], Output: numbers[1], CachedInput: numbers[0]}
		if len(numbers) == 3 {
			price.CachedInput = numbers[2]
		}
		spec := given[:cut]
		if !slices.Contains(o.specs(), spec) {
			return nil, cli.Exit(cli.ExitUsage, "--price %s: no --model is %s", spec, spec)
		}
		prices[spec] = price
	}
	return prices, nil
}
