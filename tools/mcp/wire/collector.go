package wire

import (
	"bytes"
	"fmt"

	"github.com/stevedore-bus/stevedore/tools"
)

// Collector collects the text of a message, in memory or in a temporary file.
type Collector struct {
	// Limit is the most bytes that it accepts; 0 means 4 GiB.
	Limit int64

	data  []byte
	spool *tools.Output
}

// Write implements io.Writer.
func (c *Collector) Write(p []byte) (int, error) {
	if c.spool == nil && len(c.data)+len(p) <= inMemory {
		c.data = append(c.data, p...)
		return len(p), nil
	}
	if c.spool == nil {
		c.spool = tools.NewOutput(tools.OutputLimits{Memory: 1, Total: c.Limit})
		if _, err := c.spool.Write(c.data); err != nil {
			return 0, err
		}
		c.data = nil
	}
	n, err := c.spool.Write(p)
	if err == nil && c.spool.Truncated() {
		err = fmt.Errorf("a message has more than %d bytes", c.spool.Size())
	}
	return n, err
}

// Empty reports whether there is no text.
func (c *Collector) Empty() bool { return c.spool == nil && len(bytes.TrimSpace(c.data)) == 0 }

// Body returns the text and empties the collector. The caller closes the body.
func (c *Collector) Body() *Body {
	b := &Body{data: bytes.TrimSpace(c.data), spool: c.spool}
	c.data, c.spool = nil, nil
	return b
}

// Close removes the text.
func (c *Collector) Close() {
	if c.spool != nil {
		_ = c.spool.Close()
	}
	c.data, c.spool = nil, nil
}
