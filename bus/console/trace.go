package console

import (
	"cmp"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// traced begins the span of a request that has a traceparent or changes something. The
// page asks for its data every few seconds, which makes no spans. The caller calls end
// with the status and the code of an error, or "".
func traced(r *http.Request) (_ *http.Request, end func(status int, code string)) {
	header := r.Header.Get(tracing.Header)
	if r.Method == http.MethodGet && header == "" {
		return r, func(int, string) {}
	}
	route := cmp.Or(r.Pattern, r.Method)
	ctx, span := tracing.Start(tracing.From(r.Context(), header), route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		tracing.HTTPMethod.String(r.Method), tracing.HTTPRoute.String(route)))
	return r.WithContext(ctx), func(status int, code string) {
		span.SetAttributes(tracing.HTTPStatus.Int(status))
		tracing.End(span, code)
	}
}
