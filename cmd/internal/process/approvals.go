package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// approvalOptions say which calls need a person's approval.
type approvalOptions struct {
	Rules   []string      `flag:"ask" unit:"TOOL" help:"TOOLs, or one TOOL:PATTERN, whose calls need a person's approval; see stevedore approvals"`
	Timeout time.Duration `flag:"ask-timeout" default:"24h" min:"1ms" unit:"TIME" help:"TIME after which an approval that nobody answered counts as denied"`
}

// approvalRule is one value of --ask.
type approvalRule struct {
	tool    string         // a pattern of package path
	pattern *regexp.Regexp // nil: all calls of the tool
}

func (o *approvalOptions) parse() ([]approvalRule, error) {
	var rules []approvalRule
	for _, given := range o.values() {
		tool, pattern, hasPattern := strings.Cut(given, ":")
		rule := approvalRule{tool: tool}
		if _, err := path.Match(tool, ""); err != nil || tool == "" || strings.ContainsAny(tool, ", {}()") {
			return nil, cli.Exit(cli.ExitUsage, "--ask %q: want TOOL,TOOL or one TOOL:PATTERN, such as shell,write_file or shell:rm", given)
		}
		if hasPattern {
			var err error
			if rule.pattern, err = regexp.Compile(pattern); err != nil {
				return nil, cli.Exit(cli.ExitUsage, "--ask %q: %w", given, err)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// values splits lists of tools. A pattern may contain commas, so a value with a pattern is
// one rule.
func (o *approvalOptions) values() (values []string) {
	for _, given := range o.Rules {
		if strings.Contains(given, ":") {
			values = append(values, given)
		} else {
			values = append(values, strings.Split(given, ",")...)
		}
	}
	return values
}

// approvals returns the configuration of the worker.
func (o *approvalOptions) approvals(notifier *notify.Notifier, command func(...string) string) (approvals.Rules, error) {
	rules, err := o.parse()
	if err != nil || len(rules) == 0 {
		return approvals.Rules{}, err
	}
	return approvals.Rules{
		Needed: func(call tools.Call) bool {
			return slices.ContainsFunc(rules, func(rule approvalRule) bool { return rule.matches(call) })
		},
		Timeout: o.Timeout,
		Ask:     approvalAsker(notifier, command),
	}, nil
}

func (r approvalRule) matches(call tools.Call) bool {
	if ok, err := path.Match(r.tool, call.Tool); !ok || err != nil {
		return false
	}
	return r.pattern == nil || anyText(call.Args, r.pattern.MatchString)
}

// anyText reports whether match accepts a text in JSON: a string, a key, or the text of a
// number or another value.
func anyText(data json.RawMessage, match func(string) bool) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false // the end: the arguments were checked before
		}
		if _, isDelim := token.(json.Delim); !isDelim && match(fmt.Sprint(token)) {
			return true
		}
	}
}

// HostTool is the tool with which the hook of a coding host asks for an approval. A worker
// offers it if --ask names it.
const HostTool = "coding_host"

// HostCall has the arguments of HostTool.
type HostCall struct {
	Tool      string         `json:"tool" jsonschema:"the tool of the coding host"`
	Input     map[string]any `json:"input" jsonschema:"its arguments"`
	Directory string         `json:"directory,omitempty"`
}

// tools returns HostTool if a rule names it.
func (o *approvalOptions) tools() []tools.Tool {
	if !slices.Contains(o.values(), HostTool) {
		return nil
	}
	allow := func(context.Context, tools.Call, HostCall) *tools.Result { return tools.NewToolResult("allowed") }
	return []tools.Tool{tools.MustTool(HostTool, "Ask a person whether a coding host may use one of its tools. The result says so.",
		allow).WithEffect(tools.Idempotent)}
}

// maxShownArgs is how much of the arguments of a call a question to the user shows, in bytes.
const maxShownArgs = 1500

// approvalAsker returns the function that asks the user on the call's channel. Its key
// follows from the call, so a repeated question is dropped.
func approvalAsker(notifier *notify.Notifier, command func(...string) string) func(context.Context, approvals.Approval) error {
	return func(ctx context.Context, a approvals.Approval) error {
		args := a.ArgsText(maxShownArgs, command("approvals", "ls", "--session", a.Session))
		text := fmt.Sprintf("May %s run?\n%s\n\nTo answer: yes or no in a chat that takes messages, or %s "+
			"(or \"no\"). Without an answer before %s, it does not run.",
			a.Tool, args, command("approvals", "yes", a.ID, "--session", a.Session), a.Deadline.UTC().Format("2006-01-02 15:04 MST"))
		_, err := notifier.Send(ctx, channel.Notification{
			ID:      fmt.Sprintf("approval.%s.%s", a.Session, a.ID),
			Session: a.Session, Call: a.ID, Tool: a.Tool, Channel: a.Channel, ChatID: a.ChatID, Text: text,
			Approval: &channel.Approval{Session: a.Session, ID: a.ID, Tool: a.Tool, Args: args, Deadline: a.Deadline},
		})
		return err
	}
}
