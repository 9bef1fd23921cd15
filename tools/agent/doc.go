// Package agent is the loop in which a language model works with tools: it asks
// a provider for the next turn, has the tools called that the turn asks for, and
// goes on until the model has said its last word or a limit is reached.
//
// A conversation is a log, appended with compare-and-set, and the ids of all
// tool calls derive from it. So a loop whose process died is taken up from its
// log by any other one: no turn that stands there is asked for again, and calls
// that were answered return the answer that they have.
//
// The package does not know where tools run (Caller) and where logs are kept
// (Log); the command worker puts both on the bus.
package agent
