// Package otlp sends traces to a receiver of OTLP over HTTP, as the standard OTEL_*
// variables say. The exporter of OpenTelemetry needs gRPC and protobuf, which are larger
// than all that a worker needs for traces.
package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// flushTimeout is how long the end of a process waits for the receiver.
const flushTimeout = 5 * time.Second

// Start sends the traces of this process if the environment asks for it: if
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or
// OTEL_TRACES_EXPORTER has otlp. traced is ctx with the trace of the variable TRACEPARENT,
// which a script can set. stop sends the rest and returns the last error.
func Start(ctx context.Context, service, version string) (traced context.Context, stop func() error, err error) {
	ctx = tracing.From(ctx, os.Getenv("TRACEPARENT"))
	if !enabled() {
		return ctx, func() error { return nil }, nil
	}
	e, err := newExporter()
	if err != nil {
		return nil, nil, err
	}
	// The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
	r, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var last atomic.Pointer[error]
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { last.Store(&err) }))
	provider := trace.NewTracerProvider(trace.WithBatcher(e), trace.WithResource(r))
	otel.SetTracerProvider(provider)
	return ctx, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		err := provider.Shutdown(ctx)
		if e := last.Load(); err == nil && e != nil {
			err = *e
		}
		if err != nil {
			return fmt.Errorf("traces were lost: %w", err)
		}
		return nil
	}, nil
}

// logInterval is the shortest time between two log lines about lost traces.
const logInterval = time.Minute

// LogErrors writes the errors of the export to the log of a process that runs for long, and which exporters it does not have.
func LogErrors(log zerolog.Logger) {
	if unknown := slices.DeleteFunc(exporters(), func(name string) bool { return name == "otlp" || name == "none" }); len(unknown) > 0 {
		log.Warn().Strs("exporters", unknown).Msg("OTEL_TRACES_EXPORTER names exporters that this program does not have; it has otlp and none")
	}
	if !enabled() {
		return
	}
	limited := log.Sample(&zerolog.BurstSampler{Burst: 1, Period: logInterval})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { limited.Warn().Err(err).Msg("traces are lost") }))
	log.Info().Msg("traces are sent to the receiver of the OTEL_* variables")
}

func enabled() bool {
	names := exporters()
	return !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") &&
		(slices.Contains(names, "otlp") || len(names) == 0 && variable("ENDPOINT") != "")
}

// exporters are the names in OTEL_TRACES_EXPORTER.
func exporters() []string {
	return strings.FieldsFunc(strings.ToLower(os.Getenv("OTEL_TRACES_EXPORTER")), func(r rune) bool { return r == ',' || r == ' ' })
}

// variable returns a setting of the exporter; that for traces takes precedence.
func variable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

const (
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
)

func newExporter() (*exporter, error) {
	if protocol := variable("PROTOCOL"); protocol == "grpc" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL=grpc: only OTLP over HTTP is supported; set http/json and the receiver's HTTP port (4318)")
	}
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" {
		endpoint = strings.TrimSuffix(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), defaultEndpoint), "/") + "/v1/traces"
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: want a URL such as http://localhost:4318")
	}
	e := &exporter{endpoint: endpoint, header: http.Header{}, gzip: variable("COMPRESSION") == "gzip"}
	e.client.Timeout = defaultTimeout
	if text := variable("TIMEOUT"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%s: want a number of milliseconds", text)
		}
		e.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	for pair := range strings.SplitSeq(variable("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: want NAME=VALUE,... with percent-encoded values") // without the secret
		}
		e.header.Set(strings.TrimSpace(name), value)
	}
	if file := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s contains no certificate", file)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		e.client.Transport = transport
	}
	e.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e, nil
}
