package limited

import (
	"context"
	"runtime"
	"time"
)

// Within returns a context that ends when this process has used so much more processor time, which is
// for a main that calls Serve. Up to a second later, the system ends the process, if it can do that.
func Within(ctx context.Context, cpu time.Duration) (context.Context, context.CancelFunc) {
	used := processTime(0)
	before := used()
	limitCPU(before + cpu + time.Second)
	ctx, end := context.WithCancelCause(ctx)
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		left := cpu - (used() - before)
		if left <= 0 {
			end(Reached{CPU: cpu})
			return
		}
		timer.Reset(max(left/time.Duration(runtime.GOMAXPROCS(0)), tick))
	})
	timer.Reset(min(cpu, tick))
	return ctx, func() {
		timer.Stop()
		end(nil)
	}
}
