package worker

import (
	"maps"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Stats are what a worker has in hand, and what it did since it started.
type Stats struct {
	Worker string                `json:"worker"`
	Queues map[string]QueueStats `json:"queues"`
}

// QueueStats are those of a queue.
type QueueStats struct {
	// Running calls, with the jobs that they started in the background.
	Running int `json:"running"`
	// Outcomes counts the results and completions that were published. A job in
	// the background counts twice: as async, and by its end.
	Outcomes map[tools.Outcome]int64 `json:"outcomes"`
	// Seconds that all of these took together.
	Seconds float64 `json:"seconds"`
}

// counters count by queue.
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

// count notes that a call of a queue was answered.
func (c *counters) count(queue string, outcome tools.Outcome, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.queues[queue]; ok {
		q.Outcomes[outcome]++
		q.Seconds += took.Seconds()
		c.queues[queue] = q
	}
}

// Stats returns the statistics of now.
func (w *Worker) Stats() Stats {
	running := w.running.byQueue()
	w.counters.mu.Lock()
	defer w.counters.mu.Unlock()
	s := Stats{Worker: w.cfg.Name, Queues: make(map[string]QueueStats)}
	for name, q := range w.counters.queues {
		q.Running, q.Outcomes = running[name], maps.Clone(q.Outcomes)
		s.Queues[name] = q
	}
	return s
}
