package cli

// removedSettings are flags of earlier versions, and what is so without them.
var removedSettings = map[string]string{
	"temperature":          "models use the temperature of their provider",
	"delivery":             "both the user and the conversation get a completion, unless the call of spawn says otherwise",
	"session-weight":       "sessions take turns; a call may have a priority",
	"min-age":              "results and conversations stay for an hour, or for less if --results-ttl or --sessions-ttl is less",
	"max-subagents":        "a run starts at most 8 sub-agents",
	"live-after":           "Codex sees an output after 20 s",
	"resource-links":       "clients that can use links get them",
	"threshold":            "an output of more than 10,000 bytes is stored",
	"json-text":            "--json prints no text for models",
	"use-turns":            "--max-turns of the worker limits the turns",
	"offload-inline":       "a result is shown in full below five characters for each token of --offload-threshold",
	"heartbeat-tool":       heartbeatTool,
	"heartbeat-args":       heartbeatTool,
	"heartbeat-prompt-arg": heartbeatTool,
	"shell-processes":      shellLimits,
	"shell-open-files":     shellLimits,
	"shell-file-size":      shellLimits,
	"shell-cpu":            shellLimits,
}

const (
	heartbeatTool = "a heartbeat prompts an agent; stevedore cron calls other tools"
	shellLimits   = "--shell-unlimited removes the limits of commands"
)

// removedText says that a setting was removed, or is empty.
func removedText(flag string) string {
	if now := removedSettings[flag]; now != "" {
		return "--" + flag + " was removed: " + now
	}
	return ""
}
