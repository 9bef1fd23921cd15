//go:build !unix

package main

// Killing is tested where processes are killed as on Unix.
const agentChildEnv = "STEVEDORE_TEST_AGENT_URL"

func agentChild() int { return 1 }
