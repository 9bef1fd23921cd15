package bus

// EndUnusedWatches does what a tick does: it ends the subscriptions of Watch that had no
// watcher since the last call.
func (b *Bus) EndUnusedWatches() { b.watches.endUnused() }

// MaxLingering is how many subscriptions without watchers may stay.
const MaxLingering = maxLingering

// CoversAll is coversAll.
var CoversAll = coversAll
