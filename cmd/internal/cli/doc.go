// Package cli contains what the commands share: connection flags, settings from file
// and environment, the data directory, logging, help, output and exit codes.
//
// A flag of several commands belongs to a topic (see Topic): its help appears only in
// "help TOPIC". Each flag is also a setting of the file and the environment; a
// variable of another program is added to envAliases.
package cli
