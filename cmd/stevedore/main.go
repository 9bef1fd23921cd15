// Stevedore runs the tools of LLM agents on a NATS bus: see stevedore --help.
package main

import "github.com/stevedore-bus/stevedore/cmd/internal/commands"

func main() { commands.Main() }
