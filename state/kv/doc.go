// Package kv is the state.Store in a bucket of a NATS server, which the processes of a bus share.
package kv
