package wrap

import (
	"cmp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/offload"
)

// hosted is the part of a proxy that depends on the host.
type hosted struct {
	host     hosts.Limits
	reader   *offload.Reader
	reading  *artifacts.Tools
	shrinker *shrinker
}

func newHosted(cfg Config, h hosts.Limits) (*hosted, error) {
	if cfg.Offload.InlineChars == 0 && cfg.Offload.Threshold == 0 && h.Inline > 0 {
		cfg.Offload.InlineChars, cfg.Offload.Threshold = h.Inline, h.Inline/4
	}
	cfg.Offload.ReferenceChars = cmp.Or(cfg.Offload.ReferenceChars, h.Reference)
	cfg.Reader.MaxChars = cmp.Or(cfg.Reader.MaxChars, h.Page)
	reader := offload.NewReader(cfg.Store, cfg.Reader)
	reading, err := artifacts.NewTools(reader, cfg.Family)
	shrinker := newShrinker(cfg)
	shrinker.noURI, shrinker.client = h.ResourceTools, h.Client
	return &hosted{h, reader, reading, shrinker}, err
}

// setClientLocked notes the name of the client. Its host may have other limits than those
// before.
func (p *proxy) setClientLocked(name string) {
	p.clientName = name
	old := p.hosted.Load()
	if h := hosts.LimitsOf(name); old != nil && h != old.host {
		if now, err := newHosted(p.cfg, h); err == nil { // as it succeeded before
			p.hosted.Store(now)
		}
	}
}

// reads is what the model reads stored results with instead of a tool of the proxy.
func (p *proxy) reads() hosts.ReadWay {
	way := p.hosted.Load().host.Reads
	if !p.cfg.LateTools || p.cfg.BackgroundAfter > 0 || way == hosts.ByCommand && p.cfg.ReadCommand == "" { // only the tool waits for a call
		return ""
	}
	return way
}

// text replaces the names of the reading tools in a text by those that the client sees, or by what its model can do without them.
func (p *proxy) text(text string) string {
	way := artifacts.ToolWay(p.rename(artifacts.ReadResult))
	switch p.reads() {
	case hosts.ByResource:
		way = artifacts.ResourceWay(p.cfg.session)
	case hosts.ByCommand:
		way = artifacts.CommandWay(p.cfg.ReadCommand)
	}
	return p.hosted.Load().reading.Text(text, p.rename, way)
}
