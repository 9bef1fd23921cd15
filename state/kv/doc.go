// Package kv is the state.Store in a bucket of a NATS server, for state that
// several hosts share.
package kv
