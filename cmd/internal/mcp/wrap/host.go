package wrap

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
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

// readCall is a call of the tool as references name it, and readWith one as errors do.
var (
	readCall = lazyregexp.New(`read_result\(id, ([a-z|]+)\)`)
	readWith = lazyregexp.New(`read_result with (grep|lines|offset|jq|sql)`)
)

// withoutTool replaces the calls of the tool in a text by what the model of the host can do.
func (p *proxy) withoutTool(text string) string {
	way, forms := p.reads(), map[string]string{"grep": "grep=REGEXP", "lines": "lines=10-40", "offset": "offset=0", "jq": "jq=QUERY", "sql": "sql=SELECT"}
	if way == "" {
		return text
	}
	text = readWith.ReplaceAllStringFunc(text, func(advice string) string {
		form := forms[readWith.FindStringSubmatch(advice)[1]]
		if way == hosts.ByResource {
			return "?" + form
		}
		return "--" + strings.Replace(form, "=", " ", 1)
	})
	return readCall.ReplaceAllStringFunc(text, func(call string) string {
		var ways []string
		for name := range strings.SplitSeq(readCall.FindStringSubmatch(call)[1], "|") {
			if way == hosts.ByResource {
				ways = append(ways, "?"+forms[name])
			} else if name != "sql" {
				ways = append(ways, "--"+strings.Replace(forms[name], "=", " ", 1))
			}
		}
		if way == hosts.ByResource {
			return fmt.Sprintf("read_mcp_resource of this server, uri %s%s", artifacts.URI(p.cfg.session, "ID"), strings.Join(ways, " or "))
		}
		return fmt.Sprintf("the command: %s ID %s", p.cfg.ReadCommand, strings.Join(ways, " or "))
	})
}
