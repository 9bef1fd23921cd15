// Package worker takes a call event to a result event.
//
// It is the place where the bus, the tools and the offloading meet; Worker's
// handle method is the whole way of a call, step by step. What a crash at any
// step leads to stands with the step.
package worker
