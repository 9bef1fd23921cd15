package rpc_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// Whoever watches a call gets no activity that no worker sends: a text cannot begin before its start.
func TestForgedActivity(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call, got := tools.Call{ID: "c", Session: "s"}, make(chan tools.ProgressEvent, 1)
	stop, err := rpc.WatchProgress(b, call, func(e tools.ProgressEvent) { got <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	body := []byte(`{"activity":[{"type":"text","turn":1,"offset":-1,"text":"forged"},{"type":"text","turn":1,"text":"real"}]}`)
	if err := b.Conn().Publish(b.Progress("s", "c"), body); err != nil {
		t.Fatal(err)
	}
	if e := <-got; len(e.Activity) != 1 || e.Activity[0].Text != "real" {
		t.Errorf("%+v", e)
	}
}
