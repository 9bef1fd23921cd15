package wrap

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/offload"
)

// host is what the proxy must know about a client to cost its model less than it does
// without the proxy. All numbers are characters; 0 means the default.
type host struct {
	client    string // the beginning of the client's name in its clientInfo
	inline    int64  // longer results are stored
	reference int    // the longest reference
	page      int    // the longest answer of a reading tool
	// late tells that it lists changed tools before the next request to the model. Codex and
	// Gemini CLI do not list again.
	late bool
	// reads is what its model can read stored results with, so that no tool is added.
	reads readWay
	// resourceTools tells that it offers three tools of its own, with 1,400 to 2,100
	// characters, if a server has resources, or no way to read them. The proxy then adds no
	// resources.
	resourceTools bool
}

// readWay is a tool of a host that reads stored results.
type readWay string

const (
	byResource readWay = "resource" // its tool read_mcp_resource, which is in each request
	byCommand  readWay = "command"  // its shell, which can run "stevedore read"
)

// hosts are the clients whose limits are known. They show up to 25,000 tokens (Claude Code),
// 48,000 characters (opencode) or 40,000 (Gemini CLI) of a result, and give the rest as a
// file; Codex and Copilot CLI cut what has more than 10,000 bytes, and its middle is lost.
// The other columns were measured with Claude Code 2.1.332, Codex 0.169.0, Gemini CLI 0.61.0
// and opencode 1.18.33. Codex shows a resource as JSON, whose escapes make a page longer.
var hosts = []host{
	{client: "claude-code", inline: 10_000, reference: 800, late: true, resourceTools: true},
	{client: "codex", inline: 9_000, reference: 800, page: 7_500, reads: byResource},
	{client: "copilot", inline: 9_000, reference: 800, page: 8_500},
	{client: "github-copilot", inline: 9_000, reference: 800, page: 8_500},
	{client: "gemini-cli", inline: 10_000, reference: 800, resourceTools: true, reads: byCommand},
	{client: "opencode", inline: 10_000, reference: 800, late: true, resourceTools: true},
	{client: "qwen", inline: 10_000, reference: 800},
	{client: "stevedore-", inline: 10_000, reference: 800}, // the adapters for frameworks, which cut nothing
}

func hostOf(client string) host {
	for _, h := range hosts {
		if strings.HasPrefix(strings.ToLower(client), h.client) {
			return h
		}
	}
	return host{}
}

// hosted is the part of a proxy that depends on the host.
type hosted struct {
	host     host
	reader   *offload.Reader
	reading  *artifacts.Tools
	shrinker *shrinker
}

func newHosted(cfg Config, h host) (*hosted, error) {
	if cfg.Offload.InlineChars == 0 && cfg.Offload.Threshold == 0 && h.inline > 0 {
		cfg.Offload.InlineChars, cfg.Offload.Threshold = h.inline, h.inline/4
	}
	cfg.Offload.ReferenceChars = cmp.Or(cfg.Offload.ReferenceChars, h.reference)
	cfg.Reader.MaxChars = cmp.Or(cfg.Reader.MaxChars, h.page)
	reader := offload.NewReader(cfg.Store, cfg.Reader)
	reading, err := artifacts.NewTools(reader, cfg.Family, int64(cfg.Reader.MaxChars))
	shrinker := newShrinker(cfg)
	shrinker.noURI, shrinker.client = h.resourceTools, h.client
	return &hosted{h, reader, reading, shrinker}, err
}

// setClientLocked notes the name of the client. Its host may have other limits than those
// before.
func (p *proxy) setClientLocked(name string) {
	p.clientName = name
	old := p.hosted.Load()
	if h := hostOf(name); old != nil && h != old.host {
		if now, err := newHosted(p.cfg, h); err == nil { // as it succeeded before
			p.hosted.Store(now)
		}
	}
}

// reads is what the model reads stored results with instead of a tool of the proxy.
func (p *proxy) reads() readWay {
	way := p.hosted.Load().host.reads
	if !p.cfg.LateTools || p.cfg.BackgroundAfter > 0 || way == byCommand && p.cfg.ReadCommand == "" { // only the tool waits for a call
		return ""
	}
	return way
}

// readCall is a call of the tool as references name it, and readWith one as errors do.
var (
	readCall = regexp.MustCompile(`read_result\(id, ([a-z|]+)\)`)
	readWith = regexp.MustCompile(`read_result with (grep|lines|offset|jq|sql)`)
)

// withoutTool replaces the calls of the tool in a text by what the model of the host can do.
func (p *proxy) withoutTool(text string) string {
	way, forms := p.reads(), map[string]string{"grep": "grep=REGEXP", "lines": "lines=10-40", "offset": "offset=0", "jq": "jq=QUERY", "sql": "sql=SELECT"}
	if way == "" {
		return text
	}
	text = readWith.ReplaceAllStringFunc(text, func(advice string) string {
		form := forms[readWith.FindStringSubmatch(advice)[1]]
		if way == byResource {
			return "?" + form
		}
		return "--" + strings.Replace(form, "=", " ", 1)
	})
	return readCall.ReplaceAllStringFunc(text, func(call string) string {
		var ways []string
		for name := range strings.SplitSeq(readCall.FindStringSubmatch(call)[1], "|") {
			if way == byResource {
				ways = append(ways, "?"+forms[name])
			} else if name != "sql" {
				ways = append(ways, "--"+strings.Replace(forms[name], "=", " ", 1))
			}
		}
		if way == byResource {
			return fmt.Sprintf("read_mcp_resource of this server, uri %s%s", artifacts.URI(p.cfg.Session, "ID"), strings.Join(ways, " or "))
		}
		return fmt.Sprintf("the command: %s ID %s", p.cfg.ReadCommand, strings.Join(ways, " or "))
	})
}
