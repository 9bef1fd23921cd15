package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

const (
	// maxSeries limits the series of a metric. Names from outside may become values of
	// labels, and each series costs memory here and in the database of the metrics. All
	// further series are counted together, with Other as each value.
	maxSeries = 500
	// Other replaces a value that would make too many series.
	Other = "other"
	// maxValue is the longest value of a label, in bytes.
	maxValue = 128
)

// Seconds are the upper bounds of the buckets of durations, from a millisecond to an
// hour.
var Seconds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// family is one metric with the series of all values of its labels.
type family struct {
	name, help, kind string
	labels           []string
	buckets          []float64 // upper bounds, of a histogram

	mu     sync.Mutex
	series map[string]*series // by its values, joined by separator
}

// series is a metric with one value for each label.
type series struct {
	values []string
	sum    float64
	count  uint64   // of a histogram
	counts []uint64 // observations up to each bucket's bound and above the one before
}

const separator = "\xff" // never part of valid UTF-8

var (
	mu       sync.Mutex
	families []*family
)

func register(f *family) *family {
	mu.Lock()
	defer mu.Unlock()
	if slices.ContainsFunc(families, func(other *family) bool { return other.name == f.name }) {
		panic("metrics: " + f.name + " is declared twice")
	}
	f.series = map[string]*series{}
	families = append(families, f)
	return f
}

// Counter is a number that only grows.
type Counter struct{ *family }

// NewCounter declares a counter; its name ends in _total. Call it for variables of a
// package only.
func NewCounter(name, help string, labels ...string) Counter {
	return Counter{register(&family{name: name, help: help, kind: "counter", labels: labels})}
}

// Add adds n, which is not negative, to the series with these values of the labels.
func (c Counter) Add(n float64, values ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.find(values).sum += max(n, 0)
}

// Histogram counts observations in buckets.
type Histogram struct{ *family }

// NewHistogram declares a histogram with the upper bounds of its buckets, in ascending
// order; its name ends in a unit. Call it for variables of a package only.
func NewHistogram(name, help string, buckets []float64, labels ...string) Histogram {
	return Histogram{register(&family{name: name, help: help, kind: "histogram", labels: labels, buckets: buckets})}
}

// Observe adds an observation to the series with these values of the labels. A negative
// one counts as 0: clocks of two hosts differ.
func (h Histogram) Observe(v float64, values ...string) {
	v = max(v, 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.find(values)
	if s.counts == nil {
		s.counts = make([]uint64, len(h.buckets))
	}
	s.sum += v
	s.count++
	if i, _ := slices.BinarySearch(h.buckets, v); i < len(s.counts) {
		s.counts[i]++
	}
}

// find returns the series with these values, and makes it if there are not too many.
// The caller holds f.mu.
func (f *family) find(values []string) *series {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("metrics: %s has the labels %q, not %d", f.name, f.labels, len(values)))
	}
	key := values
	for i, v := range values {
		if len(v) > maxValue {
			key = slices.Clone(key)
			key[i] = Other
		}
	}
	joined := strings.Join(key, separator)
	if s := f.series[joined]; s != nil {
		return s
	}
	if len(f.series) >= maxSeries {
		key = slices.Repeat([]string{Other}, len(f.labels))
		joined = strings.Join(key, separator)
		if s := f.series[joined]; s != nil {
			return s
		}
	}
	s := &series{values: slices.Clone(key)}
	f.series[joined] = s
	return s
}
