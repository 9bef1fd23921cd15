package bus

// EndUnusedWatches does what a tick does: it ends the subscriptions of Watch that had no
// watcher since the last call.
func (b *Bus) EndUnusedWatches() { b.watches.endUnused() }

// MaxLingering is how many subscriptions without watchers may stay.
const MaxLingering = maxLingering

// CoversAll is coversAll.
var CoversAll = coversAll

// MaxJoint is how many reads one request answers.
const MaxJoint = maxJoint

// HoldReads holds the requests of Last for the results until release is called.
func HoldReads(b *Bus) (release func()) {
	busy := make(chan struct{}, 1)
	busy <- struct{}{}
	b.reads.mu.Lock()
	defer b.reads.mu.Unlock()
	b.reads.busy[b.StreamName(Results)] = busy
	return func() { <-busy }
}

// JoinedReads returns how many reads of a stream have joined the next request.
func JoinedReads(b *Bus, stream string) int {
	b.reads.mu.Lock()
	defer b.reads.mu.Unlock()
	if joint := b.reads.next[b.StreamName(stream)]; joint != nil {
		return len(joint.subjects)
	}
	return 0
}
