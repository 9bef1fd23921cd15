// Package builtin holds the tools that come with the worker: shell, read_file,
// list_dir, grep, glob, write_file, edit_file and web_fetch.
//
// All paths are resolved under one os.Root, the workspace. Output of any size
// is streamed into a tools.Output; what fits its memory limit is handed over as
// text, and what does not stays in its file.
package builtin
