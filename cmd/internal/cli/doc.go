// Package cli contains what the commands share: connection flags, settings from file
// and environment, the data directory, logging, help, output and exit codes.
//
// A flag is a setting of the process or an option of one action. Settings are the fields of
// structs with tags (see AddSettings), and come from the settings file, the environment and the
// command line. Options come only from the command line: commands add them to their flags. A
// setting may belong to a topic, which "help TOPIC" explains.
package cli
