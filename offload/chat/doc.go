// Package chat keeps chat messages in the Anthropic shape light: oversized tool
// results are written to files, and a reference with the path takes their place.
//
// There are three forms. OffloadMessage moves the whole content of one message
// into one file. OffloadResults, the one for agent loops, keeps the blocks and
// moves only the content inside each tool_result, so that every tool_use keeps
// its answer. OffloadHistory does so for a whole conversation. Each writes to
// disk; its ...To twin writes through an interface of the caller's.
//
// Messages are data. A field that this package does not know is kept, keys stay
// in their order and numbers keep their text; strings are printed as
// JavaScript's JSON.stringify prints them, and lengths are counted as
// JavaScript's length counts them, in UTF-16 code units.
package chat
