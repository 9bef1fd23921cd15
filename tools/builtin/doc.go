// Package builtin contains the file, shell, web and message tools of the worker.
//
// To add a tool, write one file like glob.go: a struct of arguments whose jsonschema
// tags describe them to the model, a function newX that calls tools.NewTool and sets
// the effect, and a method of workspace. Add newX to the list in builtin.go.
// TestDefinitions then checks the name, the descriptions and the refusal of unknown
// arguments; write a test of the method that calls it through newFixture.
//
// Resolve each path with workspace.rel and open files below workspace.root, which no
// link leads out of. Refuse binary files with checkText. Write output of unknown size to
// a tools.Output and return it with workspace.setOutput. Return errors of files with
// workspace.explain, and the error of an ended context with ended.
package builtin
