// Package wire reads, changes and writes JSON-RPC messages of at most MaxMessage bytes.
//
//	message  a message and its parts
//	value    the members of objects and the elements of arrays, as they were written
//	buffer   the text of a message that arrives in parts
//	lines    messages as lines
//	events   messages as server-sent events
//	sdk      messages for the SDK, which rounds numbers
//
// A message is in memory. Everything in it that nobody changes is passed on as it came:
// members that the program does not know, their order, and the way that numbers and
// strings are written.
package wire
