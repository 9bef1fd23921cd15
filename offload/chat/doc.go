// Package chat moves long tool results of chat messages in the Anthropic format to
// files, and puts a reference with the path in their place.
//
// OffloadMessage moves the whole content of one message to one file. OffloadResults,
// the form for agent loops, keeps the blocks and moves only the content inside each
// tool_result, so that every tool_use keeps its result. OffloadHistory does the same for a
// conversation, also in formats of OpenAI, Gemini and the Vercel AI SDK. Each writes to disk;
// its ...To form writes through an interface of the caller.
//
// The package keeps unknown fields, the order of keys and the text of numbers. It
// writes strings like JavaScript's JSON.stringify, and counts lengths like
// JavaScript's length, in UTF-16 code units.
package chat
