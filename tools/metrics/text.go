package metrics

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ContentType is that of the text format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Gauges are numbers that are read when they are written: the state of the process and
// of what it depends on.
type Gauges struct {
	order []string
	text  map[string]*strings.Builder
}

// Set adds a gauge. labels are pairs of a label and its value.
func (g *Gauges) Set(name, help string, value float64, labels ...string) {
	g.add(name, help, "gauge", value, labels)
}

// Count adds a number that only grows, which something else counts.
func (g *Gauges) Count(name, help string, value float64, labels ...string) {
	g.add(name, help, "counter", value, labels)
}

func (g *Gauges) add(name, help, kind string, value float64, labels []string) {
	b := g.text[name]
	if b == nil {
		if g.text == nil {
			g.text = map[string]*strings.Builder{}
		}
		b = new(strings.Builder)
		g.text[name], g.order = b, append(g.order, name)
		writeHead(b, name, help, kind)
	}
	writeSample(b, name, labels, value)
}

// Write writes the declared metrics of all packages, and then the gauges.
func Write(w io.Writer, gauges *Gauges) error {
	mu.Lock()
	all := slices.Clone(families)
	mu.Unlock()
	slices.SortFunc(all, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	out := bufio.NewWriter(w)
	for _, f := range all {
		f.write(out)
	}
	for _, name := range gauges.order {
		_, _ = out.WriteString(gauges.text[name].String())
	}
	return out.Flush()
}

func (f *family) write(out io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	writeHead(out, f.name, f.help, f.kind)
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[key]
		var labels []string
		for i, name := range f.labels {
			labels = append(labels, name, s.values[i])
		}
		if f.buckets == nil {
			writeSample(out, f.name, labels, s.sum)
			continue
		}
		var below uint64
		for i, bound := range f.buckets {
			below += s.counts[i]
			writeSample(out, f.name+"_bucket", append(labels, "le", format(bound)), float64(below))
		}
		writeSample(out, f.name+"_bucket", append(labels, "le", "+Inf"), float64(s.count))
		writeSample(out, f.name+"_sum", labels, s.sum)
		writeSample(out, f.name+"_count", labels, float64(s.count))
	}
}

func writeHead(w io.Writer, name, help, kind string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var escape = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

func writeSample(w io.Writer, name string, labels []string, value float64) {
	_, _ = io.WriteString(w, name)
	for i := 0; i+1 < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		fmt.Fprintf(w, `%s%s="%s"`, open, labels[i], escape.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")))
	}
	if len(labels) > 1 {
		_, _ = io.WriteString(w, "}")
	}
	fmt.Fprintf(w, " %s\n", format(value))
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
