// Package eval measures how well models get the right answers out of offloaded results, and
// what that costs. Scripted models ask; with a key, a real model does so too. See docs/eval.md.
package eval
