// Package retention keeps finished work from stopping new work: it removes the oldest
// results and conversations before their stream is full.
//
// Each worker runs a Keeper, which looks every few seconds how full the streams are. At
// 75 % it trims the results or the sessions stream to 65 %. One keeper at a time trims a
// stream: it holds a lease in the trim record of the stream (Trimmed, in the bucket of
// tasks, key trim.<stream>), and another one continues if it dies.
//
// Records of calls in progress always stay. Records younger than Config.MinAge stay as long as
// the stream holds them, and so do those that are newer than what the notifier has read. A
// conversation is removed as a whole.
//
// The trim record says how far records may be missing, and it is written before they are
// removed. So a worker knows that the claim of an old once-only call may be gone (Drops),
// and does not run the call a second time.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package retention
