package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"
)

// flagsOf returns the flags that the help of a command and its topics list.
func flagsOf(t *testing.T, program string, command ...string) map[string]bool {
	t.Helper()
	flags := map[string]bool{}
	read := func(args ...string) (out []byte) {
		cmd := exec.Command(program, args...)
		cmd.Env = cleanEnvironment()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v", program, args, err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllSubmatch(out, -1) {
			flags[string(m[1])] = true
		}
		return out
	}
	help := read(append(slices.Clip(command), "--help")...)
	for _, topic := range regexp.MustCompile(`(?m)^  \w+ (help \w+)  `).FindAllSubmatch(help, -1) {
		read(strings.Fields(string(topic[1]))...)
	}
	return flags
}

// checkArgs fails if a deployment file uses a command or a flag that does not exist.
func checkArgs(t *testing.T, file string, args []string) {
	t.Helper()
	program, command := workerProgram, args[:1]
	if strings.HasPrefix(args[0], "--") {
		program, command = heartbeatProgram(t), nil
	}
	flags := flagsOf(t, program, command...)
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--"); ok && !flags[strings.SplitN(name, "=", 2)[0]] {
			t.Errorf("%s: %q has no flag --%s", file, command, name)
		}
	}
}

func heartbeatProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(workerProgram), "heartbeat")
	if out, err := exec.Command("go", "build", "-o", path, module+"/cmd/heartbeat").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// Every YAML file for a deployment can be parsed, and the arguments and variables of
// its containers exist.
func TestDeployYAML(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("deploy/*/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		containers(doc, func(args []string) { checkArgs(t, file, args) })
		if filepath.Dir(file) == "deploy/systemd" {
			flags := flagsOf(t, workerProgram, "up")
			for key := range doc {
				if !flags[key] {
					t.Errorf("%s: there is no setting %q", file, key)
				}
			}
		}
	}
}

// containers calls f with the arguments of each container of a Kubernetes object or
// a compose file.
func containers(value any, f func(args []string)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range []string{"args", "command"} {
			list, _ := value[key].([]any)
			var args []string
			for _, v := range list {
				if s, ok := v.(string); ok {
					args = append(args, s)
				}
			}
			if image, _ := value["image"].(string); image == "stevedore" && len(args) > 0 && !strings.HasPrefix(args[0], "/") {
				f(args)
			}
		}
		for _, v := range value {
			containers(v, f)
		}
	case []any:
		for _, v := range value {
			containers(v, f)
		}
	}
}

func TestDeploySystemd(t *testing.T) {
	const unit = "deploy/systemd/stevedore.service"
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/worker (.*)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no ExecStart")
	}
	args := strings.Fields(string(m[1]))
	checkArgs(t, unit, args)
	if !slices.Contains(args, "--quiet") {
		t.Error("the unit writes the credential to the journal")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The program is not installed here, so another one takes its place.
	checked := filepath.Join(t.TempDir(), "stevedore.service")
	if err := os.WriteFile(checked, []byte(strings.Replace(string(text), "/usr/local/bin/worker", workerProgram, -1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", checked).CombinedOutput(); err != nil || strings.Contains(string(out), "stevedore.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The real server accepts the configuration of the cluster's servers.
func TestDeployServerConfig(t *testing.T) {
	for name, value := range map[string]string{"NATS_NAME": "nats-1", "WORKER_PASSWORD": "secret", "SYS_PASSWORD": "secret"} {
		t.Setenv(name, value)
	}
	opts, err := server.ProcessConfigFile("deploy/nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	if opts.ServerName != "nats-1" || !opts.JetStream || len(opts.Routes) != 3 || len(opts.Accounts) != 2 {
		t.Errorf("got the server %q with %d routes and %d accounts", opts.ServerName, len(opts.Routes), len(opts.Accounts))
	}
}
