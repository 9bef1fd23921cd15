package wrap

import (
	"errors"

	"github.com/stevedore-bus/stevedore/tools/mcp/command"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// program is a Link to the process of a server.
type program struct {
	*Stream
	process *command.Process
}

// NewProgram returns the link to a running program.
func NewProgram(p *command.Process) Link {
	return program{NewStream(p.Stdout, p.Stdin, p.Close), p}
}

// Receive returns how the process ended, if it did.
func (l program) Receive() (*wire.Message, error) {
	m, err := l.Stream.Receive()
	_, syntax := errors.AsType[*wire.SyntaxError](err)
	_, size := errors.AsType[*wire.SizeError](err)
	if err == nil || syntax || size {
		return m, err
	}
	l.process.Close()
	return nil, l.process.Err()
}
