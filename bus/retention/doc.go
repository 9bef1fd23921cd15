// Package retention keeps finished work from stopping new work: it removes the oldest
// records of a stream before the stream is full.
package retention
