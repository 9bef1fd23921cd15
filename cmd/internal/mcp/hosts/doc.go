// Package hosts knows the coding hosts: it puts the wrapping proxy before the commands of the MCP
// servers that a host already has in its configuration, and takes it away again; limits.go says how
// much of a result each host shows.
//
// A configuration file is JSON with or without comments, TOML or YAML. parse makes a tree of
// it whose nodes know their bytes (tree.go, json.go, toml.go, yaml.go); servers.go finds the
// servers in the tree; edit.go replaces the bytes of a command and inserts into its arguments,
// so that comments, order and indentation stay. change.go decides what a file shall contain,
// and record.go stores the original beside it.
package hosts
