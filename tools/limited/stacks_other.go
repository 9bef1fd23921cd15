//go:build !cgo

package limited

const stacks = 0
