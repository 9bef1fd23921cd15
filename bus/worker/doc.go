// Package worker takes a call event to a result event.
//
// It is the place where the bus, the tools and the offloading meet; Worker's
// handle method is the whole way of a call, step by step. After a crash at any
// of them the call is delivered again, and recall finds how far it came.
package worker
