package process

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// health reports the state of this process over HTTP. Its answers hold no secrets.
//
//	/healthz  200 unless the process must be restarted
//	/readyz   200 while the process accepts calls: not while it starts or stops, not without the bus, and
//	          not while something fails that it cannot do without
//	/metrics  metrics in the text format of Prometheus
type health struct {
	bus        *bus.Bus
	trouble    *trouble.Register
	connection *cli.Connection // for the commands in its advice
	worker     *worker.Worker
	keeper     *retention.Keeper
	slots      int
	serving    atomic.Bool // the process accepts calls
}

// WorkerHeader names the worker in each answer, so that a program that asks knows whose it is.
const WorkerHeader = "Stevedore-Worker"

// listenHealth answers requests for a worker until stop is called. stop waits for running requests.
func listenHealth(address, worker string, log zerolog.Logger, alive, ready func() error, metrics http.HandlerFunc) (stop func(), err error) {
	l, err := httpauth.Listen(context.Background(), address)
	if err != nil {
		return nil, cli.ListenError("health", address, err)
	}
	log.Info().Str("address", l.Addr().String()).Msg("health server is listening")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", AnswerProbe(alive))
	mux.HandleFunc("GET /readyz", AnswerProbe(ready))
	mux.HandleFunc("GET /metrics", metrics)
	server := "stevedore/" + cli.ReadVersion().Version
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", server)
		w.Header().Set(WorkerHeader, worker)
		mux.ServeHTTP(w, r)
	})
	return httpauth.Serve(l, httpauth.Public(named), func(err error) { log.Error().Err(err).Msg("health server failed") }), nil
}

// AnswerProbe returns a handler that answers ok, or the error of probe.
func AnswerProbe(probe func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := probe(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	}
}

func (h *health) alive() error {
	select {
	case <-h.bus.Closed():
		return errors.New("the connection to the bus is closed")
	default:
		return nil
	}
}

var errNotServing = errors.New("the process is starting or stopping")

func (h *health) ready() error {
	switch {
	case !h.serving.Load():
		return errNotServing
	case !h.bus.Conn().IsConnected():
		return errors.New("the process is not connected to the bus")
	}
	var reasons []error
	for _, f := range failures(h.trouble) {
		if !Stops(f.Kind, f.Name) {
			continue
		}
		problems := []status.Problem{status.OfFailure(h.worker.Stats().Worker, f)}
		client.Advise(problems, h.connection)
		problems[0].Advice = cmp.Or(h.connection.Advice(f.Err), problems[0].Advice)
		reasons = append(reasons, errors.New(problems[0].String()))
	}
	return errors.Join(reasons...)
}
