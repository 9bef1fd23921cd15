package process

import (
	"net/http"

	"github.com/stevedore-bus/stevedore/tools/metrics"
)

// maxTenantSeries is how many tenants have metrics of their own. The others are one more.
const maxTenantSeries = 500

// ready returns an error while the process starts or stops. A tenant that does not run is no
// reason to send the calls of the others elsewhere.
func (f *fleet) ready() error {
	if !f.scanned.Load() {
		return errNotServing
	}
	return nil
}

// tenantState is what the metrics say of a tenant.
type tenantState struct{ up, running, ended, fill float64 }

func (f *fleet) state(t *tenant) (s tenantState) {
	f.mu.Lock()
	h := t.health
	f.mu.Unlock()
	if h == nil {
		return s
	}
	s.up = number(h.ready() == nil)
	for _, queue := range h.worker.Stats().Queues {
		s.running += float64(queue.Running)
		for _, n := range queue.Outcomes {
			s.ended += float64(n)
		}
	}
	for _, fill := range h.keeper.Fills() {
		s.fill = max(s.fill, fill.Ratio())
	}
	return s
}

// metrics answers a scrape: what the packages count for all tenants together, and the state of
// each tenant. It asks no server: that would be a request for each stream of each tenant.
func (f *fleet) metrics(w http.ResponseWriter, _ *http.Request) {
	all := f.all()
	g := new(metrics.Gauges)
	readVersion(g)
	var up float64
	states, other := map[string]tenantState{}, tenantState{up: 1}
	for i, t := range all {
		s := f.state(t)
		up += s.up
		if i < maxTenantSeries {
			states[t.name] = s
			continue
		}
		other = tenantState{min(other.up, s.up), other.running + s.running, other.ended + s.ended, max(other.fill, s.fill)}
		states[metrics.Other] = other
	}
	g.Set("stevedore_ready", "1 if /readyz answers ok.", number(f.ready() == nil))
	g.Set("stevedore_tenants", "Tenants with a file in the directory.", float64(len(all)))
	g.Set("stevedore_tenants_up", "Tenants that accept calls.", up)
	for name, s := range states {
		g.Set("stevedore_tenant_up", "1 if the tenant accepts calls here: its files are valid, it is connected, and no stream is full.", s.up, "tenant", name)
		g.Set("stevedore_tenant_calls_running", "Calls of a tenant that this process runs now.", s.running, "tenant", name)
		g.Count("stevedore_tenant_calls_total", "Results and completions of a tenant that this process published.", s.ended, "tenant", name)
		g.Set("stevedore_tenant_fill_ratio", "Size of the fullest stream of a tenant, as a part of its maximum.", s.fill, "tenant", name)
	}
	f.mu.Lock()
	for queue, pool := range f.pools {
		g.Set("stevedore_slots", "Calls of a queue that this process runs at once.", float64(f.options.Worker.Slots), "queue", queue)
		g.Set("stevedore_slots_free", "Slots of a queue that no call of any tenant holds.", float64(pool.Free()), "queue", queue)
	}
	f.mu.Unlock()
	writeMetrics(w, g)
}
