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
		"server": c.bus.Conn().ConnectedUrlRedacted(), "connected": c.bus.Conn().IsConnected(), "now": time.Now().UTC(),
	}, nil
}

// statusTimeout limits the requests of one status.
const statusTimeout = 5 * time.Second

func (c *Console) status(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	return status.Read(ctx, c.bus), nil
}
