package process

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/metrics"
)

// scrapeTimeout limits the requests to the bus of one scrape.
const scrapeTimeout = 2 * time.Second

// metrics answers a scrape: what the packages count, and the state of the process and of
// the bus. What the bus does not answer in time is missing.
func (h *health) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	g := new(metrics.Gauges)
	h.readProcess(g)
	h.readStreams(ctx, g)
	h.readQueues(ctx, g)
	writeMetrics(w, g)
}

func writeMetrics(w http.ResponseWriter, g *metrics.Gauges) {
	w.Header().Set("Content-Type", metrics.ContentType)
	if metrics.Write(w, g) == nil {
		_ = metrics.WriteProcess(w)
	}
}

func readVersion(g *metrics.Gauges) {
	v := cli.ReadVersion()
	g.Set("stevedore_build_info", "The version of the program; the value is 1.", 1, "version", v.Version, "commit", v.Commit, "go", v.Go)
}

// number is 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (h *health) readProcess(g *metrics.Gauges) {
	readVersion(g)
	g.Set("stevedore_ready", "1 if /readyz answers ok.", number(h.ready() == nil))
	g.Set("stevedore_bus_connected", "1 if the process is connected to the bus.", number(h.bus.Conn().IsConnected()))
	g.Count("stevedore_bus_reconnects_total", "Times that the process connected to the bus again.", float64(h.bus.Conn().Stats().Reconnects))
	for _, f := range failures(h.trouble) {
		g.Set("stevedore_failing_seconds", "Seconds for which something fails that the process tries again and again.",
			time.Since(f.Since).Seconds(), "kind", string(f.Kind), "name", f.Name)
	}
	stats := h.worker.Stats().Queues
	for _, queue := range slices.Sorted(maps.Keys(stats)) {
		g.Set("stevedore_slots", "Calls of a queue that this process runs at once.", float64(h.slots), "queue", queue)
		g.Set("stevedore_calls_running", "Calls of a queue that this process runs now, with async ones in the background.",
			float64(stats[queue].Running), "queue", queue)
	}
}

func (h *health) readStreams(ctx context.Context, g *metrics.Gauges) {
	for _, f := range h.keeper.Fills() {
		g.Set("stevedore_stream_fill_ratio", "Size of a stream, as a part of its maximum.", f.Ratio(), "stream", f.Name)
		g.Set("stevedore_stream_bytes", "Size of a stream in bytes.", float64(f.Bytes), "stream", f.Name)
		g.Set("stevedore_stream_max_bytes", "Maximum size of a stream in bytes.", float64(f.MaxBytes), "stream", f.Name)
		g.Set("stevedore_stream_messages", "Messages in a stream.", float64(f.Messages), "stream", f.Name)
	}
	if letters, err := dead.Count(ctx, h.bus); err == nil {
		g.Set("stevedore_dead_letters", "Dead letters.", float64(letters))
	}
}

// readQueues reads all queues and channels, also those that this process does not serve:
// otherwise nobody would report a queue without a worker.
func (h *health) readQueues(ctx context.Context, g *metrics.Gauges) {
	queues, _ := status.Queues(ctx, h.bus) // what cannot be read is missing, as everything here
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		info := queues[name]
		g.Set("stevedore_queue_waiting", "Calls of a queue, on the bus, that were delivered to no worker.", float64(info.NumPending), "queue", name)
		g.Set("stevedore_queue_taken", "Calls of a queue, on the bus, that a worker has and that are not settled.",
			float64(max(info.NumAckPending, 0)), "queue", name)
		g.Set("stevedore_queue_pulls", "Requests of workers for calls of a queue. 0 means that no worker has a free slot for it.",
			float64(info.NumWaiting), "queue", name)
	}
	channels, _ := status.Consumers(ctx, h.bus, h.bus.ChannelConsumer(""))
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		info := channels[name]
		g.Set("stevedore_notifications_waiting", "Notifications of a channel, on the bus, that were delivered to no notifier.",
			float64(info.NumPending), "channel", name)
		g.Set("stevedore_notifications_sending", "Notifications of a channel that a notifier sends or will send again.",
			float64(max(info.NumAckPending, 0)), "channel", name)
	}
}
