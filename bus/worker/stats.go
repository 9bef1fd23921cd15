package worker

import (
	"maps"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Stats counts the running calls of a worker and its results since it started.
type Stats struct {
	Worker string                `json:"worker"`
	Queues map[string]QueueStats `json:"queues"`
}

// QueueStats is the part of Stats for one queue.
type QueueStats struct {
	// Running counts the running calls, including async tools in the background.
	Running int `json:"running"`
	// Outcomes counts the published results and completions. An async call counts
	// twice: as async, and with the outcome of its completion.
	Outcomes map[tools.Outcome]int64 `json:"outcomes"`
	// Seconds is the total duration of the calls in Outcomes.
	Seconds float64 `json:"seconds"`
}

// counters holds the counts of each queue.
type counters struct {
	mu     sync.Mutex
	queues map[string]QueueStats
}

func newCounters(queues []string) *counters {
	c := &counters{queues: make(map[string]QueueStats)}
	for _, q := range queues {
		c.queues[q] = QueueStats{Outcomes: make(map[tools.Outcome]int64)}
	}
	return c
}

// add counts a published result or completion.
func (c *counters) add(queue string, outcome tools.Outcome, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.queues[queue]; ok {
		q.Outcomes[outcome]++
		q.Seconds += took.Seconds()
		c.queues[queue] = q
	}
}

// Stats returns the current statistics.
func (w *Worker) Stats() Stats {
	running := w.executions.countByQueue()
	w.counters.mu.Lock()
	defer w.counters.mu.Unlock()
	s := Stats{Worker: w.cfg.Name, Queues: make(map[string]QueueStats)}
	for name, q := range w.counters.queues {
		q.Running, q.Outcomes = running[name], maps.Clone(q.Outcomes)
		s.Queues[name] = q
	}
	return s
}
