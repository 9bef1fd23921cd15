// Package offload replaces oversized text by a small reference and reads the
// text back piece by piece.
//
// An Offloader decides what is too big for a prompt, stores it as an artifact
// and writes the reference; a Reader pages, greps and queries artifacts; a Store
// keeps their bytes and records: on disk, in an object store, or in memory.
package offload
