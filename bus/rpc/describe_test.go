package rpc

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// The service tells the authors of clients what each endpoint takes and returns.
func TestEndpointsAreDescribed(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ready := make(chan struct{})
	bustest.Run(t, NewService(b, nil, ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)}).Run)
	<-ready
	reply, err := b.Conn().Request("$SRV.INFO."+ServiceName, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range info.Endpoints {
		names = append(names, e.Name)
		subject := strings.Split(e.Metadata["subject"], ".")
		for i, token := range strings.Split(e.Subject, ".") {
			if i >= len(subject) || token != subject[i] && (token != "*" || subject[i] != strings.ToUpper(subject[i])) {
				t.Errorf("%s: the subject %s is described as %s", e.Name, e.Subject, e.Metadata["subject"])
				break
			}
		}
		for _, key := range []string{"request", "response"} {
			if text := e.Metadata[key]; text == "" || len(text) > 80 { // nats cuts the longer ones
				t.Errorf("%s: %s is described as %q", e.Name, key, text)
			}
		}
	}
	want := []string{"call", "call-in-session", "submit", "submit-in-session", "artifact", "artifacts", "task", "approval", "approvals", "cron", "tools"}
	if !slices.Equal(names, want) {
		t.Errorf("endpoints %v, want %v", names, want)
	}
}
