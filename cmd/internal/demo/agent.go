package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// demoPrompt is what the demonstration's agent is asked.
const demoPrompt = "What do the files here say of a license? Grep all of them, then read what stands where you find it."

// demoScript is the model of the demonstration where no real one is to be had:
// it grasps nothing, but what it asks for is done. See provider.Script.
const demoScript = `{"text":"I grep everything; that will be long.", "tools":[{"name":"grep","input":{"pattern":"\\S","max_results":100000}}]}
{"text":"It was stored. I search in it.", "capture":{"id":"knowledge id='([^']+)'"}, "tools":[{"name":"grep_knowledge","input":{"artifact_id":"${id}","pattern":"(?i)license","max_results":1}}]}
{"text":"I read on from there.", "capture":{"line":"(?m)^(\\d+): "}, "tools":[{"name":"get_knowledge_by_lines","input":{"artifact_id":"${id}","start_line":"${int:line}","end_line":"${int:line+2}"}}]}
{"text":"(A model would answer here. This one is a script: it searched ${id}, found the first mention in line ${line}, and read three lines there.)"}
`

// chooseModel chooses the demonstration's model: the one that the flags name, a
// real one if there is a key for it, or else a script in dir.
func chooseModel(o *process.AgentOptions, dir string) error {
	switch {
	case o.Enabled():
		return nil
	case len(o.BaseURLs) > 0:
		return cli.Exit(cli.ExitUsage, "--base-url: name the model, too, such as --model openai:llama3.2")
	case os.Getenv("ANTHROPIC_API_KEY") != "":
		o.Models = []string{provider.ExampleModel}
		return nil
	}
	script := filepath.Join(dir, "demo.jsonl")
	o.Models = []string{"script:" + script}
	return os.WriteFile(script, []byte(demoScript), 0o600)
}

// agent lets the model do by itself what was shown before.
func (d *demonstration) agent(ctx context.Context, model string) error {
	d.say("\n5. An agent does the same on its own; its tools run on the bus, and its log survives its worker. The model is %s:\n", model)
	args, err := json.Marshal(map[string]any{"prompt": demoPrompt, "max_turns": 12})
	if err != nil {
		return err
	}
	call := tools.Call{ID: "agent-1", Session: demoSession + "-agent", Tool: agent.AgentTool, Args: args}
	event, err := rpc.Submit(ctx, d.bus, process.AgentQueue, call)
	if err != nil {
		return err
	}
	d.awaitNotification(ctx, 2)
	d.say("\n   That was its answer, in the user's channel. How it came to it:\n")
	entries, err := client.ReadConversation(ctx, d.bus, call.Session)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Message != nil:
			for _, block := range e.Message.Content {
				switch block.Type {
				case agent.TypeText:
					d.quote(fmt.Sprintf("%s: %s", e.Kind, block.Text))
				case agent.TypeToolUse:
					d.quote(fmt.Sprintf("  calls %s %s", block.Name, block.Input))
				}
			}
		case e.Kind == agent.KindResults:
			for _, a := range e.Results {
				size := int64(len([]rune(a.ForLLM)))
				line := fmt.Sprintf("  got %s characters", thousands(size))
				if a.Artifact != nil && !a.Artifact.Inline {
					line += fmt.Sprintf(" instead of %s", thousands(a.Artifact.Chars))
				}
				d.quote(line)
			}
		}
	}
	if event.IsError {
		return fmt.Errorf("demo: the agent failed: %s", tools.Excerpt(event.ForLLM, 500))
	}
	return nil
}
