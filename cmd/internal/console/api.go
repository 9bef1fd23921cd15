package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// maxBody limits the body of a request, in bytes.
const maxBody = 1 << 20

// Codes of errors of the API, in addition to those of tools.
const (
	codeReadOnly  = "read_only"
	codeNoWorker  = "no_worker"
	codeNoBus     = "bus_unreachable"
	codeConflict  = "conflict"
	codeForbidden = "permission_denied"
	codeMediaType = "unsupported_media_type"
)

// answer returns a handler that writes the value of f as JSON, or its error.
func (c *Console) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && c.cfg.ReadOnly {
			writeError(w, http.StatusForbidden, codeReadOnly, "this page is read-only")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		r, end := traced(r)
		err := checkPath(r)
		var v any
		if err == nil {
			v, err = f(r)
		}
		if err != nil {
			status, code := c.fail(w, r, err)
			end(status, code)
			return
		}
		end(http.StatusOK, "")
		if r.Method != http.MethodGet {
			c.cfg.Log.Info().Str("identity", httpauth.Identity(r.Context())).Str("path", tools.Excerpt(tools.OneLine(r.URL.Path), 200)).Msg("changed by the page")
		}
		writeJSON(w, http.StatusOK, v)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v) // escapes <, > and &
	if err != nil {
		writeError(w, http.StatusInternalServerError, "failed", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]any{"error": tools.EventError{Code: code, Message: message}})
}

// fail writes an error with its status and code, and returns both.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) (status int, code string) {
	status, code, message := classify(err)
	if code == codeNoBus && r.Method == http.MethodGet {
		message += "; the page tries again"
	}
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		c.cfg.Log.Warn().Err(err).Str("path", tools.Excerpt(tools.OneLine(r.URL.Path), 200)).Msg("the page cannot answer a request")
	}
	writeError(w, status, code, message)
	return status, code
}

func classify(err error) (status int, code, message string) {
	if e, ok := errors.AsType[*tools.Error](err); ok {
		message = toolNames.Replace(err.Error())
		statuses := map[string]int{
			tools.CodeNotFound: http.StatusNotFound, tools.CodeExpired: http.StatusGone,
			codeConflict: http.StatusConflict, codeMediaType: http.StatusUnsupportedMediaType, codeNoWorker: http.StatusServiceUnavailable,
			rpc.CodeUnknown: http.StatusNotImplemented, tools.CodeTimeout: http.StatusGatewayTimeout,
		}
		if status, ok := statuses[e.Code]; ok {
			return status, e.Code, message
		}
		return http.StatusBadRequest, e.Code, message
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return http.StatusServiceUnavailable, codeNoWorker, "no worker answers"
	case errors.Is(err, bus.ErrUnreachable), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionReconnecting):
		return http.StatusServiceUnavailable, codeNoBus, "the bus is not reachable now"
	case errors.Is(err, bus.ErrFull):
		return http.StatusServiceUnavailable, rpc.CodeFull, err.Error()
	case errors.Is(err, nats.ErrPermissionViolation):
		return http.StatusForbidden, codeForbidden, "the user of this page has no permission for this on the bus: " + err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, tools.CodeTimeout, "no answer in time; try again"
	}
	return http.StatusInternalServerError, "failed", err.Error()
}

// toolNames removes advice for models from errors for people.
var toolNames = strings.NewReplacer("; "+offload.ToolQuery+" lists the artifacts", "")

func badArgument(format string, args ...any) error {
	return tools.Errorf(tools.CodeInvalidArguments, format, args...)
}

// pathNames finds the names in the path of a route.
var pathNames = regexp.MustCompile(`{(\w+)}`)

// do answers with an operation. The body, the query and the path of a request are its input; defaults
// is a query with what the request may leave out.
func (c *Console) do(op *rpc.Operation, defaults string) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		in := map[string]any{}
		if err := decodeBody(r, &in); err != nil {
			return nil, err
		}
		query, _ := url.ParseQuery(r.URL.RawQuery + "&" + defaults) // the first value of a name counts
		for name := range query {
			if text := query.Get(name); text != "" {
				in[name] = text
			}
		}
		for _, name := range pathNames.FindAllStringSubmatch(r.Pattern, -1) {
			in[name[1]] = r.PathValue(name[1])
		}
		if strings.Contains(op.Subject, "SESSION") {
			delete(in, "session")
		}
		for _, field := range reflect.VisibleFields(op.In) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if text, ok := in[name].(string); ok && field.Type.Kind() != reflect.String && json.Valid([]byte(text)) {
				in[name] = json.RawMessage(text) // a number, true or false
			}
		}
		answer, err := op.Ask(r.Context(), c.bus, r.PathValue("session"), in)
		return json.RawMessage(answer), err
	}
}

// checkPath returns an error if a name in the path of a request is too long.
func checkPath(r *http.Request) error {
	for _, name := range pathNames.FindAllStringSubmatch(r.Pattern, -1) {
		if len(r.PathValue(name[1])) > tools.MaxIDLen {
			return badArgument("the %s in the path is too long", name[1])
		}
	}
	return nil
}

// decodeBody decodes the JSON body of a request, if it has one.
func decodeBody(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return badArgument("the body has more than %d bytes", maxBody)
	} else if err != nil {
		return badArgument("the body is incomplete, or arrives too slowly")
	}
	if len(body) == 0 {
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Header.Get("Content-Type") != "" && kind != "application/json" {
		return tools.Errorf(codeMediaType, "want Content-Type: application/json")
	}
	if err := tools.DecodeStrict(body, v); err != nil {
		return badArgument("the body is not the expected JSON object: %s", tools.Excerpt(tools.OneLine(err.Error()), 200))
	}
	return nil
}

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
