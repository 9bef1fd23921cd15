package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const (
	// maxArguments is how many characters of the arguments of a call stay in the conversation
	// after the call has ended.
	maxArguments = 10_000
	// shownArgument is how many characters of each long argument stay then.
	shownArgument = 500
	// maxPrompt is how many characters of a text of the user the model sees at once.
	maxPrompt = 40_000
)

// argumentsID returns the id of the artifact with the arguments of a call.
func argumentsID(call string) string { return tools.Token(call + "-arguments") }

// offloadArguments stores the long arguments of the last turn's calls, which have ended. The
// model has written them, and would pay for them again at each turn.
func (r *run) offloadArguments(ctx context.Context) error {
	if _, ok := r.tools[offload.ToolGet]; !ok {
		return nil // the model could not read them
	}
	references := map[string]string{}
	for i, use := range r.conv.open.calls {
		id := argumentsID(r.conv.open.callID(i))
		if r.conv.references[id] != "" || utf8.RuneCount(use.Input) <= maxArguments {
			continue
		}
		artifact, err := r.store(ctx, CallResult{Call: id, Tool: use.Name, Result: tools.Result{ForLLM: string(use.Input)}})
		switch {
		case errors.Is(err, offload.ErrQuota):
		case err != nil:
			return fmt.Errorf("%w: offload the arguments of call %s: %w", errLog, id, err)
		case artifact != nil:
			references[id] = artifact.ID
		}
	}
	if len(references) == 0 {
		return nil
	}
	return r.append(ctx, Entry{Kind: KindOffloaded, Offloaded: references})
}

// withoutArguments returns a turn in which references replace the long arguments that were
// offloaded.
func (c *conversation) withoutArguments(content []Block, run string, turn int) []Block {
	call := 0
	for i, block := range content {
		if block.Type != TypeToolUse {
			continue
		}
		if artifact := c.references[argumentsID(callID(run, turn, call))]; artifact != "" {
			content[i] = ToolUse(block.ID, block.Name, shortArguments(block.Input, artifact))
		}
		call++
	}
	return content
}

// shortArguments shortens the long texts in arguments. If many short values make them long, their
// start replaces them, as that of an input that is no object.
func shortArguments(input json.RawMessage, artifact string) json.RawMessage {
	var shorten func(v any) any
	shorten = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name := range v {
				v[name] = shorten(v[name])
			}
		case []any:
			for i := range v {
				v[i] = shorten(v[i])
			}
		case string:
			if utf8.RuneCountInString(v) > 2*shownArgument {
				return excerpt(v, artifact)
			}
		}
		return v
	}
	if value, err := jsonform.Decode(input); err == nil {
		if short, err := jsonform.Encode(shorten(value)); err == nil && utf8.RuneCount(short) <= maxArguments {
			return short
		}
	}
	short, _ := jsonform.Encode(map[string]string{"start_of_arguments": excerpt(string(input), artifact)}) // texts do not fail
	return short
}

// excerpt returns the start of a text, and where the rest of it is.
func excerpt(text, artifact string) string {
	return fmt.Sprintf("%s [%d characters; the whole arguments are the artifact '%s']", tools.Excerpt(text, shownArgument), utf8.RuneCountInString(text), artifact)
}

// offloadPrompt returns the prompt of the run in which references replace long texts.
func (r *run) offloadPrompt(ctx context.Context) (*Message, error) {
	short := Message{Role: r.prompt.Role}
	for i, block := range r.prompt.Content {
		if _, ok := r.tools[offload.ToolGet]; ok && r.cfg.Offloader != nil && block.Type == TypeText && utf8.RuneCountInString(block.Text) > maxPrompt {
			call := tools.Call{ID: fmt.Sprintf("%s-prompt-%d", r.id, i), Session: r.call.Session, Tool: "prompt", AgentID: r.call.AgentID, TaskID: r.call.TaskID}
			stored, err := r.cfg.Offloader.Result(ctx, call, tools.Definition{Name: call.Tool}, tools.NewToolResult(block.Text))
			switch {
			case errors.Is(err, offload.ErrQuota):
			case err != nil:
				return nil, fmt.Errorf("%w: offload the prompt of run %s: %w", errLog, r.id, err)
			case stored.Artifact != nil: // otherwise there is no store
				block = Text("The user sent a long message. It is stored as the results of tools are:\n" + stored.ForLLM)
			}
		}
		short.Content = append(short.Content, block)
	}
	return &short, nil
}
