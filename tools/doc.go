// Package tools defines calls, results, the tools that run calls, and the registry of
// the tools of a worker.
//
// To add a tool to the worker, see package tools/builtin. A tool of another program is
// a function for NewTool, or a type that implements Tool, AsyncTool or ResumableTool.
package tools
