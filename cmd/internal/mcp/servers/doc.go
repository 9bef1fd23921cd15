// Package servers offers the tools of other MCP servers as tools of a worker.
//
//	server   starts or connects to a server, again if it ended, and lists its tools
//	tool     a tool of the server, and its effect
//	result   content blocks as a result, with the structured content that they do not repeat
package servers
