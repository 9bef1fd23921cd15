// Package state stores the channel on which each session was last active, so that the
// result of background work reaches the user where the user wrote last.
//
// A Store keeps short strings under keys such as "last_channel.s1", in one JSON file
// (File) or in a NATS bucket (package kv). The file holds about 900 sessions; a save drops
// those that were used longest ago.
//
// What Set has stored is durable, also after a power failure. A file is always the old or
// the new one as a whole, and processes that share a file do not erase each other's
// changes. A file of an unknown version is refused and not changed.
//
// To store something else, add functions like SetLastChannel and LastChannel.
package state
