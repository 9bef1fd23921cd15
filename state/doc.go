// Package state stores the channel on which each session was last active, so that the
// result of background work reaches the user where the user wrote last.
//
// A Store keeps short strings under keys such as "last_channel.s1"; package kv has one in a NATS
// bucket, which all processes of a bus share.
//
// To store something else, add functions like SetLastChannel and LastChannel.
package state
