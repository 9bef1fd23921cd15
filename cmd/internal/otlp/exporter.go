package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/stevedore-bus/stevedore/tools/retry"
)

// exporter implements the SDK's SpanExporter.
type exporter struct {
	endpoint string
	header   http.Header
	gzip     bool
	client   http.Client
}

func (e *exporter) Shutdown(context.Context) error { return nil }

// ExportSpans sends spans, and repeats them while the receiver is not available.
func (e *exporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(requestOf(spans))
	if err != nil {
		return fmt.Errorf("encode traces: %w", err)
	}
	if e.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // a bytes.Buffer does not fail
		_ = w.Close()
		body = b.Bytes()
	}
	policy := retry.Pauses(time.Second, time.Minute, e.client.Timeout)
	err = backoff.Retry(func() error { return e.post(ctx, body) }, backoff.WithContext(policy, ctx))
	if err != nil {
		return fmt.Errorf("send %d spans: %w", len(spans), err)
	}
	return nil
}

// maxRetryAfter limits the pause that a receiver asks for.
const maxRetryAfter = 30 * time.Second

func (e *exporter) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(err)
	}
	req.Header = e.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stevedore")
	if e.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		var partial struct {
			PartialSuccess struct {
				RejectedSpans json.Number `json:"rejectedSpans"`
				ErrorMessage  string      `json:"errorMessage"`
			} `json:"partialSuccess"`
		}
		if json.Unmarshal(answer, &partial) == nil && partial.PartialSuccess.RejectedSpans != "" && partial.PartialSuccess.RejectedSpans != "0" {
			return backoff.Permanent(fmt.Errorf("the receiver rejected %s spans: %.200q", partial.PartialSuccess.RejectedSpans, partial.PartialSuccess.ErrorMessage))
		}
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if pause, ok := retry.After(resp.Header, maxRetryAfter); ok {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return backoff.Permanent(fmt.Errorf("the receiver answered %s: %.200q", resp.Status, answer))
}
