package otlp

import (
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// The types below are the JSON form of opentelemetry.proto.collector.trace.v1. Ids are
// hexadecimal, and integers of 64 bits are strings.
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
		TraceState string     `json:"traceState,omitempty"`
		Parent     string     `json:"parentSpanId,omitempty"`
		Flags      uint32     `json:"flags"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Dropped    int        `json:"droppedAttributesCount,omitempty"`
		Events     []event    `json:"events,omitempty"`
		Links      []link     `json:"links,omitempty"`
		Status     status     `json:"status"`
	}
	event struct {
		Time       string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	link struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Attributes []keyValue `json:"attributes,omitempty"`
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

// requestOf groups spans by their resource and their scope.
func requestOf(spans []trace.ReadOnlySpan) request {
	type group struct {
		resource *resource.Resource
		scope    instrumentation.Scope
	}
	var (
		req   request
		order []group
	)
	byGroup := map[group][]span{}
	for _, s := range spans {
		g := group{s.Resource(), s.InstrumentationScope()}
		if byGroup[g] == nil {
			order = append(order, g)
		}
		byGroup[g] = append(byGroup[g], spanOf(s))
	}
	for _, g := range order {
		var r resourceSpans
		r.Resource.Attributes = keyValues(g.resource.Attributes())
		r.SchemaURL = g.resource.SchemaURL()
		scope := scopeSpans{Spans: byGroup[g]}
		scope.Scope.Name, scope.Scope.Version = g.scope.Name, g.scope.Version
		r.ScopeSpans = []scopeSpans{scope}
		req.ResourceSpans = append(req.ResourceSpans, r)
	}
	return req
}

// Bits of span.Flags: whether the parent is remote is known, and it is.
const (
	knowsRemote = 0x100
	isRemote    = 0x200
)

func spanOf(s trace.ReadOnlySpan) span {
	c, parent := s.SpanContext(), s.Parent()
	out := span{
		TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
		Flags: uint32(c.TraceFlags()) | knowsRemote, Name: s.Name(), Kind: kindOf(s.SpanKind()),
		Start: nanos(s.StartTime()), End: nanos(s.EndTime()), Attributes: keyValues(s.Attributes()), Dropped: s.DroppedAttributes(),
	}
	if parent.SpanID().IsValid() {
		out.Parent = parent.SpanID().String()
	}
	if parent.IsRemote() {
		out.Flags |= isRemote
	}
	switch st := s.Status(); st.Code {
	case codes.Ok:
		out.Status = status{Code: 1}
	case codes.Error:
		out.Status = status{Code: 2, Message: st.Description}
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, event{nanos(e.Time), e.Name, keyValues(e.Attributes)})
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, link{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String(), keyValues(l.Attributes)})
	}
	return out
}

func kindOf(kind api.SpanKind) int {
	switch kind {
	case api.SpanKindServer:
		return 2
	case api.SpanKindClient:
		return 3
	case api.SpanKindProducer:
		return 4
	case api.SpanKindConsumer:
		return 5
	}
	return 1 // internal
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
	case attribute.FLOAT64:
		if f := v.AsFloat64(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return map[string]any{"doubleValue": f}
		}
	case attribute.STRINGSLICE:
		values := []map[string]any{}
		for _, s := range v.AsStringSlice() {
			values = append(values, map[string]any{"stringValue": s})
		}
		return map[string]any{"arrayValue": map[string]any{"values": values}}
	case attribute.STRING:
		return map[string]any{"stringValue": v.AsString()}
	}
	return map[string]any{"stringValue": v.String()}
}
