// Package state stores the channel on which each session was last active.
//
// A Store keeps this in a file (File) or in a NATS bucket (package kv). To store
// something else, add functions like SetLastChannel and LastChannel.
package state
