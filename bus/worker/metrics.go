package worker

import (
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/metrics"
)

var (
	callsTotal = metrics.NewCounter("stevedore_calls_total",
		"Results and completions that this process published. An async call counts twice.", "queue", "tool", "outcome")
	callDuration = metrics.NewHistogram("stevedore_call_duration_seconds",
		"Time from the start of a call in this process to its result, or to its completion if it is async.", metrics.Seconds, "queue", "tool")
	queueWait = metrics.NewHistogram("stevedore_queue_wait_seconds",
		"Time from the first publish of a call to its first start.", metrics.Seconds, "queue")
	offloadDuration = metrics.NewHistogram("stevedore_offload_duration_seconds",
		"Time to store a result as an artifact.", metrics.Seconds)
	offloadedBytes = metrics.NewCounter("stevedore_offloaded_bytes_total",
		"Bytes of results that this process stored as artifacts.")
	savedTokens = metrics.NewCounter("stevedore_prompt_tokens_saved_total",
		"Estimated tokens that references kept out of prompts: those of the results minus those of the references.")
)

// toolLabel returns the name of a call's tool, unless this worker lacks it: any client
// can publish any name.
func (a *attempt) toolLabel() string {
	if a.def.Name == "" {
		return metrics.Other
	}
	return a.def.Name
}

// countWait counts how long a call waited in its queue, once.
func (a *attempt) countWait() {
	if a.delivery.Attempt == 1 && !a.delivery.Redelivered && a.parkedRevision == 0 {
		queueWait.Observe(a.started.Sub(a.delivery.Published).Seconds(), a.queue)
	}
}

// countResult counts a result or completion that was published.
func (w *Worker) countResult(a *attempt, outcome tools.Outcome, took time.Duration) {
	w.counters.add(a.queue, outcome, took)
	callsTotal.Add(1, a.queue, a.toolLabel(), string(outcome))
	if outcome != tools.Async {
		callDuration.Observe(took.Seconds(), a.queue, a.toolLabel())
	}
}

// countOffload counts a result that the offloader returned, if it was stored just now.
func countOffload(res, short *tools.Result, took time.Duration) {
	if short.Artifact == nil || res.Artifact != nil {
		return
	}
	offloadDuration.Observe(took.Seconds())
	offloadedBytes.Add(float64(short.Artifact.Size))
	if !short.Artifact.Inline {
		savedTokens.Add(float64(short.Artifact.Tokens - offload.EstimateTokens(short.ForLLM)))
	}
}
