package offload

import (
	"time"

	"github.com/stevedore-bus/stevedore/tools/metrics"
)

var readDuration = metrics.NewHistogram("stevedore_read_back_duration_seconds",
	"Time to read from an artifact: a page of characters, lines, a search (grep) or a query (jq).", metrics.Seconds, "kind")

// countRead counts a read that began at a time.
func countRead(kind string, began time.Time) {
	readDuration.Observe(time.Since(began).Seconds(), kind)
}
