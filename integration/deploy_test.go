package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// flagsOf returns the flags that the help of a command and its topics list.
func flagsOf(t *testing.T, program string, command ...string) map[string]bool {
	t.Helper()
	flags := map[string]bool{}
	read := func(args ...string) (out string) {
		t.Helper()
		out = helpOf(t, program, args...)
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(out, -1) {
			flags[m[1]] = true
		}
		return out
	}
	help := read(append(slices.Clip(command), "--help")...)
	if flags["help-all"] {
		read(append(slices.Clip(command), "--help-all")...)
	}
	for _, topic := range regexp.MustCompile(`(?m)^  [\w-]+ (help \w+)  `).FindAllStringSubmatch(help, -1) {
		read(strings.Fields(topic[1])...)
	}
	return flags
}

var helpTexts sync.Map // what programs have printed, by command line: many tests ask for the same

// helpOf returns what a program prints, which is always the same.
func helpOf(t *testing.T, program string, args ...string) string {
	t.Helper()
	line := program + " " + strings.Join(args, " ")
	if text, ok := helpTexts.Load(line); ok {
		return text.(string)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = cleanEnvironment()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	helpTexts.Store(line, string(out))
	return string(out)
}

// checkArgs fails if the real program refuses the arguments of a deployment file: if the
// command or a flag does not exist, or if a value is not of the type of its flag. Arguments
// that begin with a flag are those of stevedore-heartbeat.
func checkArgs(t *testing.T, file string, args []string) {
	t.Helper()
	program, command := programOf(t, args)
	if len(command) > 0 && !slices.Contains(commands(t), command[0]) {
		t.Errorf("%s: there is no command %q", file, command[0])
	}
	cmd := exec.Command(program, append(slices.Clip(args), "--help")...) // parses the flags and runs nothing
	cmd.Env = cleanEnvironment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %q: %v\n%s", file, args, err, out)
	}
}

// checkVariables fails if a variable is no setting of the command.
func checkVariables(t *testing.T, file string, args, names []string) {
	t.Helper()
	program, command := programOf(t, args)
	flags := flagsOf(t, program, command...)
	for _, name := range names {
		setting := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "STEVEDORE_")), "_", "-")
		switch known := map[string]string{"NATS_URL": "server", "NATS_USER": "user", "NATS_PASSWORD": "password", "NATS_CREDS": "creds"}[name]; {
		case known != "":
			setting = known
		case !strings.HasPrefix(name, "STEVEDORE_"):
			continue
		}
		if !flags[setting] {
			t.Errorf("%s: %q has no setting for the variable %s", file, command, name)
		}
	}
}

// programOf returns the program of a container's arguments, and its command.
func programOf(t *testing.T, args []string) (program string, command []string) {
	t.Helper()
	if len(args) == 0 || strings.HasPrefix(args[0], "--") {
		return heartbeatProgram(t), nil
	}
	return workerProgram, args[:1]
}

// commands returns the names of the commands of stevedore.
var commands = func() func(t *testing.T) []string {
	var names []string
	return func(t *testing.T) []string {
		t.Helper()
		if names == nil {
			out, err := exec.Command(workerProgram, "--help").Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^  (\w+)  +\w`).FindAllSubmatch(out, -1) {
				names = append(names, string(m[1]))
			}
		}
		return names
	}
}()

// The command lines and the variables of the image exist.
func TestDeployDockerfile(t *testing.T) {
	const file = "deploy/container/Dockerfile"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^(ENTRYPOINT|CMD|HEALTHCHECK .*CMD) (\[.*\])$`).FindAllSubmatch(text, -1) {
		var line []string
		if err := json.Unmarshal(m[2], &line); err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		found[strings.Fields(string(m[1]))[0]] = line
	}
	health := found["HEALTHCHECK"]
	if len(found) != 3 || found["ENTRYPOINT"][0] != "/usr/local/bin/stevedore" || len(health) < 2 || health[0] != "/usr/local/bin/stevedore" {
		t.Fatalf("found %q", found)
	}
	checkArgs(t, file, found["CMD"])
	checkArgs(t, file, health[1:])
	var names []string
	for _, m := range regexp.MustCompile(`(STEVEDORE_\w+)=`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) < 3 {
		t.Errorf("found the variables %q", names)
	}
	checkVariables(t, file, found["CMD"], names)
}

// A program of the image that runs in it: the health check fails before the worker starts
// and succeeds while it works.
func TestHealthCheckOfTheImage(t *testing.T) {
	t.Parallel()
	check := func(address string) error {
		cmd := exec.Command(workerProgram, "health")
		cmd.Env = append(cleanEnvironment(), "STEVEDORE_HEALTH="+address)
		return cmd.Run()
	}
	address := fmt.Sprint("0.0.0.0:", bustest.FreePort(t))
	if check(address) == nil {
		t.Error("healthy without a worker")
	}
	startUp(t, "--console", "off", "--health", address)
	if err := check(address); err != nil {
		t.Errorf("not healthy: %v", err)
	}
}

// The command lines in comments and in the advice of alerts exist.
func TestDeployAdvice(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"deploy/*/*.yaml", "deploy/*/*.service", "deploy/*/*.conf", "deploy/*/Dockerfile"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile("[`\"]stevedore ([a-z][^`\"]*)[`\"]").FindAllSubmatch(text, -1) {
				args := strings.Fields(string(m[1]))
				checked++
				if strings.HasPrefix(string(m[1]), "serve --queue {{") {
					t.Errorf("%s: %q has no model, which the queues of agents need; the status knows the command", file, m[1])
				}
				if args[0] == "help" {
					args = args[1:] // a topic
				}
				if !slices.Contains(commands(t), args[0]) && exec.Command(workerProgram, "help", args[0]).Run() != nil {
					t.Errorf("%s: there is no command %q", file, m[1])
					continue
				}
				command := args[:1]
				if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
					command = args[:2]
				}
				flags := flagsOf(t, workerProgram, command...)
				for _, arg := range args {
					if name, ok := strings.CutPrefix(arg, "--"); ok && !flags[strings.SplitN(name, "=", 2)[0]] {
						t.Errorf("%s: %q has no flag --%s", file, m[1], name)
					}
				}
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d command lines were found", checked)
	}
}

func heartbeatProgram(t *testing.T) string {
	t.Helper()
	path, err := buildProgram(filepath.Dir(workerProgram), "stevedore-heartbeat", "heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Every YAML file for a deployment can be parsed, and the arguments and variables of
// its containers exist.
func TestDeployYAML(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	files, err := filepath.Glob("deploy/*/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %q, %v", files, err)
	}
	kustomization, err := os.ReadFile("deploy/kubernetes/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var generated []string // each container gets these variables
	for _, m := range regexp.MustCompile(`(?m)^ +- ((?:STEVEDORE|NATS)_\w+)=`).FindAllSubmatch(kustomization, -1) {
		generated = append(generated, string(m[1]))
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
		containers(doc, func(args, variables []string) {
			checkArgs(t, file, args)
			if filepath.Dir(file) == "deploy/kubernetes" {
				variables = append(variables, generated...)
			}
			checkVariables(t, file, args, variables)
		})
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

// containers calls f with the arguments and the variables of each container of a
// Kubernetes object or a compose file.
func containers(value any, f func(args, variables []string)) {
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
				f(args, variables(value))
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

func variables(container map[string]any) (names []string) {
	list, _ := container["env"].([]any)
	for _, v := range list {
		if entry, ok := v.(map[string]any); ok {
			names = append(names, fmt.Sprint(entry["name"]))
		}
	}
	compose, _ := container["environment"].(map[string]any)
	return slices.AppendSeq(names, maps.Keys(compose))
}

// kubectl and Docker accept the files: Kustomize renders them, each object fits the type of its
// kind, and the Compose file fits its schema. A misspelled field is found.
func TestDeployLint(t *testing.T) {
	t.Parallel()
	if os.Getenv("STEVEDORE_LINT") == "" {
		t.Skip("make deploy-lint downloads and builds Kustomize, the types of Kubernetes and the loader of Compose")
	}
	program := filepath.Join(t.TempDir(), "lint")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "deploy/lint"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tt := range []struct{ file, from, to, want string }{
		{want: "Deployment.v1.apps/worker.stevedore"},
		{"kubernetes/worker.yaml", "terminationGracePeriodSeconds:", "terminationGraceSeconds:", `unknown field "terminationGraceSeconds"`},
		{"kubernetes/kustomization.yaml", "- worker.yaml", "- wrker.yaml", "wrker.yaml"},
		{"nats/compose.yaml", "depends_on:", "depend_on:", "depend_on"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("deploy")); err != nil {
			t.Fatal(err)
		}
		if tt.file != "" {
			path := filepath.Join(dir, tt.file)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), tt.from) {
				t.Fatalf("%s: %v, %q", path, err, tt.from)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), tt.from, tt.to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(program, filepath.Join(dir, "kubernetes"), filepath.Join(dir, "nats", "compose.yaml")).CombinedOutput()
		if (err == nil) != (tt.file == "") || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s with %q: %v, %s", tt.file, tt.to, err, out)
		}
	}
}

func TestDeploySystemd(t *testing.T) {
	const unit = "deploy/systemd/stevedore.service"
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/stevedore (.*)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no ExecStart")
	}
	args := strings.Fields(string(m[1]))
	checkArgs(t, unit, args)
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^Environment=(\w+)=`).FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	checkVariables(t, unit, args, names)
	if !slices.Contains(args, "--quiet") {
		t.Error("the unit writes the credential to the journal")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The program is not installed here, so another one takes its place.
	checked := filepath.Join(t.TempDir(), "stevedore.service")
	if err := os.WriteFile(checked, []byte(strings.Replace(string(text), "/usr/local/bin/stevedore", workerProgram, -1)), 0o600); err != nil {
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
