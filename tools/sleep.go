package tools

import (
	"context"
	"time"
)

// Sleep waits until d has passed, or ctx has ended, which is its error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
