package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

const prompt = "What do the files here say about a license? Grep all of them, then read the lines that you find."

// task is that of the sub-agent.
const task = "Say in one sentence how fast you are"

// script is the default model. See provider.Script.
const script = `{"text":"I grep everything.", "tools":[{"name":"grep","input":` + grepArgs + `}]}
{"text":"It was stored. I search in it.", "capture":{"id":"knowledge id='([^']+)'"}, "tools":[{"name":"grep_knowledge","input":{"artifact_id":"${id}","pattern":"(?i)license","max_results":1}}]}
{"text":"I read on from there.", "capture":{"line":"(?m)^(\\d+): "}, "tools":[{"name":"get_knowledge_by_lines","input":{"artifact_id":"${id}","start_line":"${int:line}","end_line":"${int:line+2}"}}]}
{"text":"(A real model would answer here. This script read 3 lines from line ${line} on.)"}
{"for":"^` + task + `"}
{"text":"A script is faster than a breeze."}
{"for":"^Check that all is well"}
{"text":"HEARTBEAT_OK"}
`

// chooseModel selects the model of the flags, or else the script, which it writes to dir.
func chooseModel(o *process.AgentOptions, dir string) error {
	switch {
	case o.Enabled():
		return nil
	case len(o.BaseURLs) > 0:
		return cli.Exit(cli.ExitUsage, "--base-url: also name the model, such as --model openai:llama3.2")
	}
	file := filepath.Join(dir, "demo.jsonl")
	o.Models = []string{"script:" + file}
	return os.WriteFile(file, []byte(script), 0o600)
}

// agent runs an agent that does the steps before.
func (d *demo) agent(ctx context.Context) error {
	name, _, _ := strings.Cut(d.model, ":")
	d.print("\n5. An agent does these steps. The notifier delivers its answer (model: %s):", name)
	args, err := json.Marshal(map[string]any{"prompt": prompt, "max_turns": 12})
	if err != nil {
		return err
	}
	call := tools.Call{ID: "agent-1", Session: session + "-agent", Tool: agent.AgentTool, Args: args}
	event, err := rpc.Submit(ctx, d.bus, bus.AgentQueue, call)
	if err != nil {
		return err
	}
	d.awaitNotifications(ctx, 2)
	d.print("   Its tool calls:")
	entries, err := client.ReadConversation(ctx, d.bus, new(cli.Connection), call.Session)
	if err != nil {
		return err
	}
	var inputs []string
	for _, e := range entries {
		switch {
		case e.Message != nil:
			inputs = nil
			for _, block := range e.Message.Content {
				if block.Type == agent.TypeToolUse {
					inputs = append(inputs, string(block.Input))
				}
			}
		case e.Kind == agent.KindResults:
			for i, result := range e.Results {
				size := thousands(chars(result.ForLLM))
				if result.Artifact != nil && !result.Artifact.Inline {
					size += " of " + thousands(result.Artifact.Chars)
				}
				line := fmt.Sprintf("%s: %s characters", result.Tool, size)
				if i < len(inputs) {
					line += " for " + inputs[i]
				}
				d.quote(line, 1, 0)
			}
		}
	}
	if event.IsError {
		return fmt.Errorf("demo: the agent failed: %s", tools.Excerpt(event.ForLLM, 500))
	}
	return nil
}
