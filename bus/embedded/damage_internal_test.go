package embedded

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// After an operator accepted the loss of a damaged block, the same text of the server does
// not mark the stream again, but the text about another block does.
func TestLaterDamageIsReported(t *testing.T) {
	s, err := Start(Config{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b, err := bus.Connect(t.Context(), s.ClientConfig(bus.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	server := serverLog{damaged: s.damaged}
	awaitMark := func(stream string) {
		t.Helper()
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			f, err := b.Fill(t.Context(), stream)
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("the stream %s is not marked: %+v, %v", stream, f, err)
			}
			if f.Damaged != "" {
				return
			}
		}
	}
	warn := func(stream, block string) {
		server.Warnf("Filestore [%s] indexCacheBuf corrupt state in %s", b.StreamName(stream), block)
	}
	warn(bus.Results, "1.blk")
	awaitMark(bus.Results)
	if _, err := b.Provision(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	warn(bus.Results, "1.blk")
	warn(bus.Dead, "1.blk") // reported after it
	awaitMark(bus.Dead)
	if f, err := b.Fill(t.Context(), bus.Results); err != nil || f.Damaged != "" {
		t.Errorf("the same damage is reported again: %+v, %v", f, err)
	}
	warn(bus.Results, "2.blk")
	awaitMark(bus.Results)
}
