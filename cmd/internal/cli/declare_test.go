package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type testLimits struct {
	Slots int           `flag:"slots" default:"64" min:"1" unit:"NUMBER" help:"NUMBER of calls"`
	Wait  time.Duration `flag:"wait" min:"1s" help:"time to wait"`
}

type testSettings struct {
	testLimits
	Mode  string   `flag:"mode" oneof:"on,off,auto" unit:"MODE" help:"of the page"`
	Names []string `flag:"name" default:"a,b" split:"," unit:"NAME" topic:"models" help:"NAMEs"`
	Rules []string `flag:"rule" help:"rules"`
	Inner struct {
		Level int64 `flag:"level" short:"l" env:"OTHER_LEVEL" help:"level"`
	} `topic:"shell"`
	Ignored map[string]string
}

func TestAddSettings(t *testing.T) {
	s, flags := new(testSettings), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Wait = time.Minute
	AddSettings(flags, s)
	if s.Slots != 64 || s.Wait != time.Minute || strings.Join(s.Names, " ") != "a b" {
		t.Errorf("defaults: %+v", s)
	}
	for name, want := range map[string]string{"slots": "", "name": topicModels, "level": topicShell} {
		if f := flags.Lookup(name); f == nil || !isSetting(f) || topicOf(f) != want {
			t.Errorf("--%s: %+v, want the topic %q", name, f, want)
		}
	}
	for name, want := range map[string]string{"slots": "`NUMBER` of calls", "mode": "`MODE` of the page", "rule": "rules"} {
		if got := flags.Lookup(name).Usage; got != want {
			t.Errorf("--%s: %q, want %q", name, got, want)
		}
	}
	args := []string{"--slots", "2", "--wait=1s", "--mode=auto", "--name", "c,d", "--name", "e", "--rule", "x,y", "-l", "-3"}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if s.Slots != 2 || s.Wait != time.Second || s.Mode != "auto" || strings.Join(s.Names, " ") != "c d e" || strings.Join(s.Rules, " ") != "x,y" || s.Inner.Level != -3 {
		t.Errorf("parsed: %+v", s)
	}
	// A refused value changes nothing, wherever it comes from.
	for _, c := range []struct{ name, value, want string }{
		{"slots", "0", "want 1 or more"}, {"slots", "many", "want a whole number"}, {"slots", "99999999999999999999", "want a whole number"},
		{"wait", "soon", "want a duration such as 90s"}, {"wait", "20", "want a duration such as 90s"}, {"wait", "10ms", "want 1s or more"},
		{"mode", "maybe", "want on, off or auto"}, {"mode", "", "want on, off or auto"},
	} {
		if err := flags.Set(c.name, c.value); err == nil || !strings.Contains(reason(err).Error(), c.want) {
			t.Errorf("--%s %s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	if s.Slots != 2 || s.Wait != time.Second || s.Mode != "auto" {
		t.Errorf("after refused values: %+v", s)
	}
}

// The settings of a library's configuration are declared beside it.
func TestAddSettingsOf(t *testing.T) {
	var config struct {
		Other string
		Slots int
		Wait  time.Duration
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSettingsOf(flags, &config, testLimits{}, topicModels)
	if err := flags.Parse([]string{"--slots=3"}); err != nil || config.Slots != 3 || topicOf(flags.Lookup("wait")) != topicModels {
		t.Errorf("%+v, %v", config, err)
	}
}

// Options are not read from the environment, nor are empty variables.
func TestEnvironmentSetsOnlySettings(t *testing.T) {
	s, flags := new(testSettings), pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSettings(flags, s)
	all := flags.Bool("all", false, "all of them")
	for name, value := range map[string]string{"STEVEDORE_ALL": "true", "STEVEDORE_SLOTS": "", "STEVEDORE_MODE": "on", "OTHER_LEVEL": "7"} {
		t.Setenv(name, value)
	}
	var warnings []string
	known := Names{Settings: []string{"slots", "mode", "level"}, Options: []string{"all", "slots"}}
	known.checkEnvironment(flags, func(text string) { warnings = append(warnings, text) })
	if err := fromEnvironment(flags); err != nil {
		t.Fatal(err)
	}
	if *all || s.Slots != 64 || s.Mode != "on" || s.Inner.Level != 7 {
		t.Errorf("all %v, %+v", *all, s)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "STEVEDORE_ALL has no effect: --all is an option of one action") {
		t.Errorf("warnings %q", warnings)
	}
}

// A settings file that is large is refused, and one that is nested deeply takes no gigabytes.
func TestSettingsFileIsBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Repeat("{a: ", 60_000): "max depth", "a: 1 #" + strings.Repeat("x", maxSettings): "more than 256 KiB",
		"a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100): "want a value or a list", strings.Repeat("a: [x]\n", 1000): "already defined",
	} {
		name := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := FromFile(pflag.NewFlagSet("x", pflag.ContinueOnError), name, Names{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v; want %q", text, err, want)
		}
	}
}
