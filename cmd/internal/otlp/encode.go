package otlp

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
)

// The types below are the JSON form of opentelemetry.proto.collector.trace.v1. Ids are
// hexadecimal, and integers of 64 bits are strings. tracing.Start begins all spans,
// so that they have one scope, and no events or links.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource struct {
			Attributes []keyValue `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
		SchemaURL  string       `json:"schemaUrl,omitempty"`
	}
	scopeSpans struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		} `json:"scope"`
		Spans []span `json:"spans"`
	}
	span struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Parent     string     `json:"parentSpanId,omitempty"`
		Flags      uint32     `json:"flags"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Dropped    int        `json:"droppedAttributesCount,omitempty"`
		Status     status     `json:"status"`
	}
	status struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"`
	}
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// requestOf returns the request for one or more spans. A process has one resource and one scope.
func requestOf(spans []trace.ReadOnlySpan) request {
	var in resourceSpans
	in.Resource.Attributes = keyValues(spans[0].Resource().Attributes())
	in.SchemaURL = spans[0].Resource().SchemaURL()
	var by scopeSpans
	by.Scope.Name, by.Scope.Version = spans[0].InstrumentationScope().Name, spans[0].InstrumentationScope().Version
	for _, s := range spans {
		by.Spans = append(by.Spans, spanOf(s))
	}
	in.ScopeSpans = []scopeSpans{by}
	return request{[]resourceSpans{in}}
}

// Bits of span.Flags: whether the parent is remote is known, and it is.
const (
	knowsRemote = 0x100
	isRemote    = 0x200
)

func spanOf(s trace.ReadOnlySpan) span {
	c, parent := s.SpanContext(), s.Parent()
	out := span{
		TraceID: c.TraceID().String(), SpanID: c.SpanID().String(),
		Flags: uint32(c.TraceFlags()) | knowsRemote, Name: s.Name(), Kind: int(s.SpanKind()),
		Start: nanos(s.StartTime()), End: nanos(s.EndTime()), Attributes: keyValues(s.Attributes()), Dropped: s.DroppedAttributes(),
	}
	if parent.SpanID().IsValid() {
		out.Parent = parent.SpanID().String()
	}
	if parent.IsRemote() {
		out.Flags |= isRemote
	}
	if st := s.Status(); st.Code == codes.Error {
		out.Status = status{Code: 2, Message: st.Description}
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func keyValues(attributes []attribute.KeyValue) []keyValue {
	out := []keyValue{}
	for _, a := range attributes {
		out = append(out, keyValue{string(a.Key), valueOf(a.Value)})
	}
	return out
}

func valueOf(v attribute.Value) map[string]any {
	switch v.Type() {
	case attribute.BOOL:
		return map[string]any{"boolValue": v.AsBool()}
	case attribute.INT64:
		return map[string]any{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.STRINGSLICE:
		values := []map[string]any{}
		for _, s := range v.AsStringSlice() {
			values = append(values, map[string]any{"stringValue": s})
		}
		return map[string]any{"arrayValue": map[string]any{"values": values}}
	}
	return map[string]any{"stringValue": v.String()}
}
