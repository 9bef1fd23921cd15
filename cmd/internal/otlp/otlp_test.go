package otlp

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// OTEL_TRACES_EXPORTER is a list. The log names what it has beside otlp and none.
func TestExporters(t *testing.T) {
	for value, want := range map[string]struct {
		enabled bool
		unknown string
	}{
		"":              {true, ""}, // there is an endpoint
		"otlp":          {true, ""},
		"none":          {false, ""},
		"otlp,console":  {true, `["console"]`},
		"Console, OTLP": {true, `["console"]`},
		"zipkin,none":   {false, `["zipkin"]`},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		t.Setenv("OTEL_TRACES_EXPORTER", value)
		var log bytes.Buffer
		LogErrors(zerolog.New(&log))
		if got := enabled(); got != want.enabled || strings.Contains(log.String(), "does not have") != (want.unknown != "") || !strings.Contains(log.String(), want.unknown) {
			t.Errorf("%q: enabled %v, the log says %s", value, got, &log)
		}
	}
}
