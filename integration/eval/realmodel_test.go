package eval

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// modelSettings say which real model answers, from the environment.
type modelSettings struct {
	spec      string // empty: no model
	cfg       provider.Config
	questions int // of each result
}

// noModel is printed if no key is set.
const noModel = "\nA real model was not asked: set ANTHROPIC_API_KEY or OPENAI_API_KEY (and EVAL_MODEL=anthropic:NAME or openai:NAME, ANTHROPIC_BASE_URL or OPENAI_BASE_URL, EVAL_QUESTIONS=1 to 4 for each result).\n"

// modelFrom reads the settings. The base URLs have the form of the providers' own clients.
func modelFrom(env func(string) string) (s modelSettings, err error) {
	s.spec, s.questions = env("EVAL_MODEL"), 4
	switch {
	case s.spec != "":
	case env("ANTHROPIC_API_KEY") != "":
		s.spec = provider.ExampleModel
	case env("OPENAI_API_KEY") != "":
		s.spec = "openai:gpt-5-mini"
	}
	kind, _, _ := strings.Cut(s.spec, ":")
	kind = strings.ToUpper(kind)
	s.cfg = provider.Config{APIKey: env(kind + "_API_KEY"), BaseURL: env(kind + "_BASE_URL")}
	if s.spec != "" && s.cfg.APIKey == "" {
		return modelSettings{}, fmt.Errorf("EVAL_MODEL is %q, but %s_API_KEY is not set", s.spec, kind)
	}
	if text := env("EVAL_QUESTIONS"); text != "" {
		if s.questions, err = strconv.Atoi(text); err != nil || s.questions < 1 || s.questions > 4 {
			return modelSettings{}, fmt.Errorf("EVAL_QUESTIONS is %q; want 1 to 4", text)
		}
	}
	return s, nil
}

// instruction is the system prompt.
const instruction = "Answer the question about the result of a tool. Use the tools that you have as often as you need. When you know the answer, write only the answer, without thousands separators. If you cannot find it, write: unknown."

// asker asks a real model.
type asker struct {
	model agent.Provider
	usage agent.Usage
}

// answer is what a model answered: whether it is right, its calls, and the tokens that the
// result, its parts and the definitions of the tools took in the prompt.
type answer struct {
	right  bool
	calls  int
	tokens int64
	// definitions is the part of tokens that the definitions took.
	definitions int64
}

// ask lets the model answer a question with the tools of a registry, which read text. With
// no registry, it has no tools.
func (a *asker) ask(ctx context.Context, text string, q question, registry *tools.Registry) (answer, error) {
	req := agent.Request{System: instruction, Messages: []agent.Message{{Role: agent.RoleUser, Content: []agent.Block{
		agent.Text("The tool returned:\n\n" + text + "\n\nQuestion: " + q.text),
	}}}}
	if registry != nil {
		req.Tools = registry.Definitions()
	}
	got := answer{tokens: offload.EstimateTokens(text)}
	if registry != nil {
		definitions, err := definitionTokens(registry)
		if err != nil {
			return got, err
		}
		got.tokens += definitions
		got.definitions = definitions
	}
	for {
		res, err := a.model.Complete(ctx, req)
		if err != nil {
			return got, err
		}
		a.usage.Input, a.usage.Output = a.usage.Input+res.Usage.Input, a.usage.Output+res.Usage.Output
		var said strings.Builder
		var results []agent.Block
		for _, block := range res.Content {
			switch {
			case block.Type == agent.TypeText:
				said.WriteString(block.Text)
			case block.Type == agent.TypeToolUse && registry != nil:
				out := registry.Run(ctx, tools.Call{ID: block.ID, Session: "eval", Tool: block.Name, Args: block.Input}, nil)
				got.calls++
				got.tokens += offload.EstimateTokens(string(block.Input)) + offload.EstimateTokens(out.ForLLM)
				results = append(results, agent.ToolResult(block.ID, out.ForLLM, out.IsError))
			}
		}
		if len(results) == 0 || got.calls >= maxCalls {
			got.right = q.isIn(said.String())
			return got, nil
		}
		req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Content: res.Content}, agent.Message{Role: agent.RoleUser, Content: results})
	}
}

var separator = regexp.MustCompile(`(\d),(\d{3})`)

// isIn reports whether a model's text ends with the answer.
func (q question) isIn(said string) bool {
	said = strings.TrimSpace(separator.ReplaceAllString(said, "$1$2"))
	said = said[max(len(said)-300, 0):]
	return regexp.MustCompile(`(^|[^\w])` + regexp.QuoteMeta(q.answer) + `($|[^\w])`).MatchString(said)
}

// askModel asks a real model the questions, with offloading and with the alternatives.
func askModel(ctx context.Context, s modelSettings, offloaded []offloadedResult, registry *tools.Registry) ([]score, error) {
	model, err := provider.Open(s.spec, s.cfg)
	if err != nil {
		return nil, err
	}
	a := &asker{model: model}
	scores := make([]score, 4)
	for _, r := range offloaded {
		file, err := fileTools(r.text)
		if err != nil {
			return nil, err
		}
		head, _ := truncate(r.text, question{})
		info := fileNotice(r.text)
		for _, q := range r.questions[:min(s.questions, len(r.questions))] {
			for i, way := range []struct {
				name, text string
				tools      *tools.Registry
			}{{"offloaded", r.reference, registry}, {"pasted whole", r.text, nil}, {"truncated to 25,000 tokens", head, nil}, {"file and grep", info, file}} {
				got, err := a.ask(ctx, way.text, q, way.tools)
				if err != nil && (i == 0 || i == 3) { // the others may not fit into the context
					return nil, fmt.Errorf("%s, %s: %w", s.spec, way.name, err)
				}
				scores[i].definitions += got.definitions
				scores[i].add(s.spec+", "+way.name, r.result, q, got.right, got.calls, got.tokens)
			}
		}
	}
	return scores, nil
}
