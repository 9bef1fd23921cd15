package jsapi_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// The texts are those of nats-server 2.15.3.
func TestIsNoSpace(t *testing.T) {
	for text, want := range map[string]struct {
		code jetstream.ErrorCode
		full bool
	}{
		"maximum bytes exceeded":                                {jsapi.ErrStoreFailed, true},
		"maximum messages exceeded":                             {jsapi.ErrStoreFailed, true},
		"write: no space left on device":                        {jsapi.ErrStoreFailed, true},
		"insufficient storage resources available":              {10047, true},
		"resource limits exceeded for account":                  {10002, true},
		"store is closed":                                       {jsapi.ErrStoreFailed, false},
		"maximum messages per subject exceeded":                 {jsapi.ErrStoreFailed, false},
		"no suitable peers for placement, insufficient storage": {jsapi.ErrNoPeers, false},
	} {
		if got := jsapi.IsNoSpace(&jetstream.APIError{ErrorCode: want.code, Description: text}); got != want.full {
			t.Errorf("%d %s: %v", want.code, text, got)
		}
	}
	if jsapi.IsNoSpace(errors.New("no space left on device")) || jsapi.IsNoSpace(nil) {
		t.Error("an error of this host is not one of the server")
	}
}
