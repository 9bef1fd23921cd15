package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each provider gets its own key and server.
func TestProviderOptions(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "env-a")
	t.Setenv("OPENAI_API_KEY", "env-o")
	t.Setenv("OPENAI_BASE_URL", "http://env/v1")
	file := filepath.Join(t.TempDir(), "k=ey")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := []string{"anthropic:a", "openai:o", "script:f"}
	for name, c := range map[string]struct {
		o              AgentOptions
		spec, url, key string
	}{
		"models of one provider":         {AgentOptions{Models: []string{"openai:o", "openai:p", "script:f"}, BaseURLs: []string{"http://h/v1?a=b"}}, "openai:p", "http://h/v1?a=b", "env-o"},
		"base URL of the other provider": {AgentOptions{Models: both, BaseURLs: []string{"openai=http://h/v1"}}, "anthropic:a", "", "env-a"},
		"base URL of each provider":      {AgentOptions{Models: both, BaseURLs: []string{"openai=http://h/v1", "anthropic=http://i"}}, "anthropic:a", "http://i", "env-a"},
		"key file of the provider":       {AgentOptions{Models: both, KeyFiles: []string{"anthropic=" + file}}, "anthropic:a", "", "from-file"},
		"key file of the other provider": {AgentOptions{Models: both, KeyFiles: []string{"anthropic=" + file}}, "openai:o", "http://env/v1", "env-o"},
		"key file":                       {AgentOptions{Models: both[1:], KeyFiles: []string{file}}, "openai:o", "http://env/v1", "from-file"},
		"script":                         {AgentOptions{Models: both, BaseURLs: []string{"openai=http://h/v1"}}, "script:f", "", ""},
		"base URL of the environment":    {AgentOptions{Models: both}, "openai:o", "http://env/v1", "env-o"},
		"base URL of the flag":           {AgentOptions{Models: both, BaseURLs: []string{"openai=http://h/v1"}}, "openai:o", "http://h/v1", "env-o"},
	} {
		cfg, err := c.o.provider(c.spec)
		if err != nil || cfg.BaseURL != c.url || cfg.APIKey != c.key {
			t.Errorf("%s: %q, key %q, %v; want %q, %q", name, cfg.BaseURL, cfg.APIKey, err, c.url, c.key)
		}
	}
}

// A limit that is too small is an error, because 0 would mean the default.
func TestLimitsAreChecked(t *testing.T) {
	for arg, want := range map[string]string{
		"--max-turns=0": "want 1 or more", "--max-turns=-3": "want 1 or more",
		"--agent-depth=-1": "want 0 or more", "--token-budget=-1": "want 0 or more", "--max-tokens=0": "want 1 or more", "--context-tokens=0": "want 1 or more",
		"--max-turns=1": "", "--agent-depth=0": "", "--token-budget=0": "",
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		new(Options).AddFlags(flags)
		err := flags.Parse([]string{arg})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}

// A worker without a model would end the prompts in the queue of agents.
func TestQueueOfAgentsNeedsAModel(t *testing.T) {
	for args, ok := range map[string]bool{
		"--queue=agent": false, "--queue=default,agent-1": false, "--queue=agents": true, "--queue=agent --remote-tool=x=y": false,
		"--queue=agent --model=script:f": true, "--queue=agent --remote-tool=agent=my.agent": true,
	} {
		flags, o := pflag.NewFlagSet("", pflag.ContinueOnError), new(Options)
		o.AddFlags(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := o.checkAgentQueues(); (err == nil) != ok || !ok && !strings.Contains(err.Error(), "give --model instead") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// A pipe gives its key once, to all models.
func TestKeyIsReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := AgentOptions{Models: []string{"openai:o", "openai:p"}, KeyFiles: []string{file}}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if cfg, err := o.provider("openai:p"); err != nil || cfg.APIKey != "secret" {
		t.Errorf("key %q, %v", cfg.APIKey, err)
	}
}
