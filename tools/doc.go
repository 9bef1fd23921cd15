// Package tools is the vocabulary of Stevedore: a call, the result that answers
// it, the tool that turns one into the other, and the registry of tools that a
// worker runs.
//
// It knows nothing of the bus, of storage or of language models; package
// tools/builtin holds the tools that come with the worker.
package tools
