// Package builtin contains the tools of the worker: they read, search and change files
// of a workspace, run commands, and fetch web pages.
//
// To add a tool, write one file like glob.go: a struct of arguments whose jsonschema
// tags describe them to the model, a function newX that calls tools.NewTool and sets
// the effect, and a method of workspace. Add newX to the list in builtin.go.
// TestDefinitions then checks the name, the descriptions and the refusal of unknown
// arguments; write a test of the method that calls it through newBench.
//
// Resolve each path with workspace.rel and open files below workspace.root, which no
// link leads out of. Write output of unknown size to a tools.Output and return it with
// workspace.setOutput.
package builtin
