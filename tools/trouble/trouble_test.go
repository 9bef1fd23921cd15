package trouble

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A failure keeps its beginning while it is reported again, and goes when it works again or when nobody
// reports it any more.
func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Register)
		ctx, cancel := context.WithCancel(r.With(t.Context()))
		began := time.Now()
		Report(ctx, Channel, "b", errors.New("first"))
		Report(ctx, Channel, "a", errors.New("other"))
		time.Sleep(keptFor - time.Second)
		Report(ctx, Channel, "b", errors.New("second"))
		got := r.List()
		if len(got) != 2 || got[0].Name != "a" || got[1].Error != "second" || !got[1].Since.Equal(began) {
			t.Errorf("%+v", got)
		}
		time.Sleep(2 * time.Second)
		if got := r.List(); len(got) != 1 || got[0].Name != "b" {
			t.Errorf("after a while, %+v", got)
		}
		Report(ctx, Channel, "b", nil)
		cancel()
		Report(ctx, Store, "", ctx.Err())
		if got := r.List(); len(got) != 0 {
			t.Errorf("at the end, %+v", got)
		}
	})
}

// A failure that nobody reported for long begins anew.
func TestFailureBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(Register)
		r.Report(Model, "m", errors.New("down"))
		time.Sleep(2 * keptFor)
		began := time.Now()
		r.Report(Model, "m", errors.New("down again"))
		if got := r.List(); len(got) != 1 || !got[0].Since.Equal(began) {
			t.Errorf("%+v", got)
		}
	})
}

func TestWithoutRegister(t *testing.T) { Report(t.Context(), Store, "", errors.New("no one listens")) }
