// Package state keeps small facts saved atomically: a file, or a KV bucket when
// several hosts share them.
//
// Three layers, each usable alone: WriteFile and its forms under an os.Root
// replace one file so that a crash leaves the old or the new content; File and
// KV are two Stores of facts with one behaviour; SetLastChannel and LastChannel
// are what the product keeps in them. Lock claims a data directory.
package state
