package wrap

import (
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
	if err == nil || wire.IsOfOneMessage(err) {
		return m, err
	}
	l.process.Close()
	return nil, l.process.Err()
}
