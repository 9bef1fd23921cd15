package process

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// parsePrices returns the prices of --price by model.
func (o *AgentOptions) parsePrices() (map[string]provider.Price, error) {
	prices := map[string]provider.Price{}
	for _, given := range o.Prices {
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
		price := provider.Price{Input: numbers[0], Output: numbers[1], CachedInput: numbers[0]}
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

// checkBudget returns what checks the budgets before each turn, or nil if there is none.
func (o *AgentOptions) checkBudget(b *bus.Bus, log zerolog.Logger) (func(ctx context.Context, session string) error, error) {
	all, err := parseBudget("budget", o.Budget)
	if err != nil {
		return nil, err
	}
	perSession, err := parseBudget("session-budget", o.SessionBudget)
	if err != nil || all+perSession == 0 {
		return nil, err
	}
	prices, err := o.parsePrices()
	if err != nil {
		return nil, err
	}
	for _, spec := range o.specs() {
		if _, ok := prices[spec]; !ok {
			return nil, cli.Exit(cli.ExitUsage, "a budget needs the prices of all models; add --price %s=INPUT,OUTPUT", spec)
		}
	}
	return agents.NewBudget(b, all, perSession, log).Check, nil
}

// parseBudget returns the amount of a budget for a day; 0 if there is none.
func parseBudget(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	amount, err := strconv.ParseFloat(strings.TrimSuffix(text, "/day"), 64)
	if err != nil || !(amount > 0 && amount < 1e9) {
		return 0, cli.Exit(cli.ExitUsage, "--%s %q: want an amount above 0 for a day, such as 5/day", flag, text)
	}
	return amount, nil
}
