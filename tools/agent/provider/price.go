package provider

import "github.com/stevedore-bus/stevedore/tools/agent"

// Price is what a model costs, in any currency, for a million tokens.
type Price struct {
	Input, Output float64
	// CachedInput is the price of prompt tokens that the provider had cached.
	CachedInput float64
}

// Cost returns what a usage costs.
func (p Price) Cost(u agent.Usage) float64 {
	return (float64(u.Input-u.CachedInput)*p.Input + float64(u.CachedInput)*p.CachedInput + float64(u.Output)*p.Output) / 1e6
}
