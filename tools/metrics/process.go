package metrics

import (
	"bytes"
	"io"
	"regexp"

	"github.com/VictoriaMetrics/metrics"
)

var (
	// head is the head of a metric; the library gives no help text.
	head = regexp.MustCompile(`(?m)^# HELP (\S+) *$`)
	// unconventional are metrics whose names promtool rejects, and ioType are counters
	// that the library declares as gauges.
	unconventional = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?go_(cgo_calls|cpu|gc_forced)_count\b.*\n`)
	ioType         = regexp.MustCompile(`(?m)^(# TYPE process_io_\S+_total) gauge$`)
)

// WriteProcess writes the metrics of the process and of the Go runtime: memory, CPU,
// files, goroutines, garbage collection.
func WriteProcess(w io.Writer) error {
	metrics.ExposeMetadata(true)
	var b bytes.Buffer
	metrics.WriteProcessMetrics(&b)
	text := unconventional.ReplaceAll(b.Bytes(), nil)
	text = ioType.ReplaceAll(text, []byte("$1 counter"))
	_, err := w.Write(head.ReplaceAll(text, []byte("# HELP $1 The process or its Go runtime reports this.")))
	return err
}
