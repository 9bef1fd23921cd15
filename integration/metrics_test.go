package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// healthOf returns the address of a process's health server, from its log. A worker of a
// cluster that has just started may log it after its start.
func healthOf(t *testing.T, p *process) string {
	t.Helper()
	var m []string
	bustest.WaitUntil(t, "a health address in the log", func() bool {
		m = regexp.MustCompile(`"address":"([^"]+)"[^\n]*health server is listening`).FindStringSubmatch(p.stderr.String())
		return m != nil
	})
	return m[1]
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %s, %v\n%s", resp.Status, err, body)
	}
	return string(body)
}

// labelsOf returns the labels of each metric of a scrape.
func labelsOf(text string) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-zA-Z_:]+)(\{.*\})? \S+$`).FindAllStringSubmatch(text, -1) {
		if found[m[1]] == nil {
			found[m[1]] = map[string]bool{"instance": true, "job": true} // Prometheus adds them
		}
		for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
			found[m[1]][l[1]] = true
		}
	}
	return found
}

// alertExpressions returns the queries of the alert rules with the labels that their
// texts name.
func alertExpressions(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			queries[r.Expr] = nil
			for _, text := range r.Annotations {
				for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
					queries[r.Expr] = append(queries[r.Expr], m[1])
				}
			}
		}
	}
	return queries
}

// dashboardExpressions returns the queries of the dashboard with the labels that their
// legends name.
func dashboardExpressions(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("deploy/grafana/stevedore.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Query json.RawMessage }
		}
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, p := range dashboard.Panels {
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("the panel %q is wider than the dashboard", p.Title)
		}
		for _, target := range p.Targets {
			queries[target.Expr] = nil
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				queries[target.Expr] = append(queries[target.Expr], m[1])
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if m := regexp.MustCompile(`label_values\((\w+), (\w+)\)`).FindStringSubmatch(string(v.Query)); m != nil {
			queries[m[1]] = []string{m[2]}
		}
	}
	return queries
}

// Every metric and label that the alert rules and the dashboard name is in a real
// scrape of a process that did everything once; every metric has a help text and a type,
// and is in the documentation.
func TestAlertsAndDashboardMatchMetrics(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "turns.jsonl")
	turns := `{"tools":[{"name":"read_file","input":{"path":"big.txt"}}],"usage":{"input_tokens":12,"output_tokens":3}}
{"text":"done"}
`
	if err := os.WriteFile(script, []byte(turns), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, "--health", "127.0.0.1:0", "--console", "off", "--mcp", "gone=/nonexistent", "--log-format", "json", "--model", "script:"+script, "--channel", "log=file:"+filepath.Join(dir, "log"), "--default-channel", "log")
	if err := os.WriteFile(filepath.Join(u.workspace, "big.txt"), []byte(strings.Repeat("a line\n", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if o := worker(t, append(args, "--data", u.data)...); o.code != 0 {
			t.Fatalf("%q: %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	run("call", "read_file", "path=big.txt", "--session", "s", "--id", "big")
	run("artifacts", "lines", "big", "1", "2", "--session", "s")
	run("call", "agent", "prompt=Read it.", "--session", "t", "--channel", "log")

	want := map[string][]string{}
	for _, queries := range []map[string][]string{alertExpressions(t), dashboardExpressions(t)} {
		if len(queries) < 10 {
			t.Fatalf("found only %d queries", len(queries))
		}
		for query, labels := range queries {
			for _, name := range regexp.MustCompile(`\b(?:stevedore|process)_\w+`).FindAllString(query, -1) {
				want[name] = append(want[name], labels...)
				for _, m := range regexp.MustCompile(`(?:by|on) \(([^)]*)\)|\{([^}]*)\}`).FindAllStringSubmatch(query, -1) {
					for _, label := range regexp.MustCompile(`\b([a-z]+)\b(?:,|$|=)`).FindAllStringSubmatch(strings.ReplaceAll(m[1]+m[2], " ", ""), -1) {
						want[name] = append(want[name], label[1])
					}
				}
			}
		}
	}
	var text string
	missing := func() (missing []string) {
		text = scrape(t, healthOf(t, u.process))
		have := labelsOf(text)
		for name, labels := range want {
			if have[name] == nil {
				missing = append(missing, name)
				continue
			}
			for _, label := range labels {
				if !have[name][label] {
					missing = append(missing, name+"{"+label+"}")
				}
			}
		}
		slices.Sort(missing)
		return slices.Compact(missing)
	}
	for deadline := time.Now().Add(testTimeout); len(missing()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in the scrape: %q\n%s", missing(), text)
		}
	}
	for _, line := range []string{
		`stevedore_calls_total{queue="default",tool="read_file",outcome="completed"} 2`,
		`stevedore_model_tokens_total{provider="script",kind="output"}`, `stevedore_notifications_total{channel="log",outcome="delivered"}`,
		`stevedore_read_back_duration_seconds_count{kind="lines"} 1`, `stevedore_offloaded_bytes_total 280000`,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no %s in:\n%s", line, text)
		}
	}
	docs, err := os.ReadFile("../docs/observe.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (\S+)(.*)$`).FindAllStringSubmatch(text, -1) {
		if strings.TrimSpace(m[2]) == "" || !strings.Contains(text, "\n# TYPE "+m[1]+" ") {
			t.Errorf("%s has no help text or no type", m[1])
		}
		if strings.HasPrefix(m[1], "stevedore_") && !strings.Contains(string(docs), "`"+m[1]+"`") {
			t.Errorf("docs/observe.md does not describe %s", m[1])
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed, so it checks nothing here")
		return
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	if out, err := exec.Command(promtool, "check", "rules", "deploy/prometheus/alerts.yaml").CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}
