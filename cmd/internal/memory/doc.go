// Package memory keeps the notes of agents across sessions. A note is a key of the state bucket,
// memory.<owner>.<id>. An owner is a user: it sees its own notes and the shared ones, which
// only operators write.
package memory
