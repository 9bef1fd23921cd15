package bus

import (
	"context"
	"time"
)

const (
	// failoverInterval is the time between two checks of the server, and how long a
	// check may take.
	failoverInterval = 2 * time.Second
	// failoverChecks is how many checks in a row must fail: an election takes less.
	failoverChecks = 3
	// maxFailoverInterval limits the pause between two moves, which grows because the
	// whole cluster may be down.
	maxFailoverInterval = time.Minute
)

// leaveIsolatedServer moves the connection to another server if JetStream does not
// answer on this one. A server that is cut off from its cluster accepts connections and
// answers pings, so the client library stays there. It returns when the connection is
// closed.
func leaveIsolatedServer(b *Bus) {
	failed, moves, pause := 0, 0, failoverInterval
	for {
		select {
		case <-b.closed:
			return
		case <-time.After(pause):
		}
		if len(b.nc.Servers()) < 2 || !b.nc.IsConnected() || jetStreamAnswers(b) {
			failed, moves, pause = 0, 0, failoverInterval
			continue
		}
		if failed++; failed < failoverChecks {
			pause = failoverInterval / 4
			continue
		}
		b.log.Warn().Str("server", b.nc.ConnectedUrlRedacted()).Msg("JetStream does not answer on this server; moving to another one")
		if err := b.nc.ForceReconnect(); err != nil {
			return // the connection is closed
		}
		failed, moves = 0, moves+1
		pause = min(failoverInterval<<moves, maxFailoverInterval)
	}
}

func jetStreamAnswers(b *Bus) bool {
	ctx, cancel := context.WithTimeout(context.Background(), failoverInterval)
	defer cancel()
	_, err := b.js.AccountInfo(ctx)
	return err == nil
}
