package provider

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// A response that is cut off after longer than the timeout is asked for again. A probe is not:
// the provider may bill each answer.
func TestProbeIsNotRepeatedAfterLong(t *testing.T) {
	for probe, want := range map[bool]int{false: 1 + maxInterrupted, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			cut := &agent.ProviderError{Code: agent.CodeUnreachable, Message: "cut off", Retryable: true}
			_, err := retry(t.Context(), time.Minute, probe, func() (agent.Response, error) {
				requests++
				time.Sleep(2 * time.Minute)
				return agent.Response{}, interrupted{cut}
			})
			if !errors.Is(err, cut) || requests != want {
				t.Errorf("probe %v: %d requests, %v; want %d", probe, requests, err, want)
			}
		})
	}
}
