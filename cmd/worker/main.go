// Worker is the program stevedore under the name of its main part: go run ./cmd/worker demo.
package main

import "github.com/stevedore-bus/stevedore/cmd/internal/commands"

func main() { commands.Main() }
