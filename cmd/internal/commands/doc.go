// Package commands contains the commands of the program stevedore, one file per command.
package commands
