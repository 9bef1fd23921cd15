package console

import (
	"context"
	"net/http"
	"time"

	"github.com/stevedore-bus/stevedore/bus/status"
)

// state returns what the page needs to know about itself.
func (c *Console) state(*http.Request) (any, error) {
	return map[string]any{
		"version": c.cfg.Version, "prefix": c.bus.Prefix(), "read_only": c.cfg.ReadOnly,
		"server": c.cfg.Server, "connected": c.bus.Conn().IsConnected(), "now": time.Now().UTC(),
	}, nil
}

// statusTimeout limits the requests of one status.
const statusTimeout = 5 * time.Second

func (c *Console) status(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	s := status.Read(ctx, c.bus)
	if c.cfg.Advise != nil {
		c.cfg.Advise(s.Problems)
	}
	s.Server.URL = c.cfg.Server // a connection within the process has no address
	return s, nil
}
