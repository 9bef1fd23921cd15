package eval

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// scene is a conversation: some results, and then questions about one or several of them.
type scene struct {
	name  string
	texts []file
	tasks []task
}

type file struct{ name, text string }

// task is a question with what a model would ask about it in each way. SQL names the results
// t1, t2, ... in the order of the scene.
type task struct {
	question
	needs []int // the results that the answer needs
	sql   string
	shell string // in a directory with the files of the scene
}

// conversation is one scene in one way of reading.
type conversation struct {
	scene   scene
	ids     []string // of artifacts; empty if a result is not stored
	notices []string // what the model sees instead of the results
	session
}

// way is a way to read the results of a scene.
type way struct {
	name   string
	answer func(*conversation, task) bool
	// notice returns what the model sees of a result.
	notice func(f file, reference string) string
	tools  func(reading []tools.Tool, dir string) (*tools.Registry, error)
}

var ways = []way{
	{"pasted whole", (*conversation).inFull, pastedNotice, nil},
	{"cut to 25,000 tokens", (*conversation).inFull, func(f file, _ string) string { head, _ := truncate(f.text, question{}); return head }, nil},
	{"files and shell", inShell, func(f file, _ string) string {
		if len(f.text) < 40_000 {
			return f.text
		}
		return fmt.Sprintf("[the output is in the file %s, %d characters; it begins with:]\n%s", f.name, len(f.text), firstRunes(f.text, 1_000))
	}, func(_ []tools.Tool, dir string) (*tools.Registry, error) { return shellTools(dir) }},
	{"stevedore, lines and grep", byLines, referenceNotice, func(reading []tools.Tool, _ string) (*tools.Registry, error) {
		return registryOf(reading, offload.ToolGrep, offload.ToolLines, offload.ToolGet)
	}},
	{"stevedore", bySQL, referenceNotice, func(reading []tools.Tool, _ string) (*tools.Registry, error) { return registryOf(reading) }},
}

func pastedNotice(f file, _ string) string { return f.text }

func referenceNotice(_ file, reference string) string { return reference }

// inFull reports whether the model sees all results that a task needs.
func (c *conversation) inFull(t task) bool {
	return !slices.ContainsFunc(t.needs, func(i int) bool { return c.notices[i] != c.scene.texts[i].text })
}

// overflows reports whether the results are longer than the context of the model.
func (c *conversation) overflows() bool {
	return offload.EstimateTokens(strings.Join(c.notices, "")) >= contextTokens
}

func inShell(c *conversation, t task) bool {
	if c.inFull(t) {
		return true
	}
	text, failed := c.call(toolShell, map[string]any{"command": t.shell})
	return !failed && t.isWordOf(text)
}

// byLines searches for a question that a pattern answers, and else reads the results.
func byLines(c *conversation, t task) bool {
	if c.inFull(t) {
		return true
	}
	if t.pattern != "" {
		text, failed := c.call(offload.ToolGrep, map[string]any{"artifact_id": c.ids[t.needs[0]], "pattern": t.pattern, "max_results": 5})
		return !failed && t.answers(text)
	}
	for _, i := range t.needs {
		c.id = c.ids[i]
		if len(c.scene.texts[i].text) > maxCalls*offload.PageChars || c.id != "" && !greedy(&c.session, question{counts: true}) {
			return false
		}
	}
	return true
}

func bySQL(c *conversation, t task) bool {
	switch {
	case c.inFull(t):
		return true
	case t.sql == "":
		return byLines(c, t)
	}
	text, failed := c.call(offload.ToolSQL, map[string]any{"sql": t.sql, "artifacts": slices.DeleteFunc(slices.Clone(c.ids), func(id string) bool { return id == "" })})
	return !failed && t.isWordOf(text)
}

const toolShell = "shell"

type shellArgs struct {
	Command string `json:"command" jsonschema:"the command"`
}

// shellTools is a shell in a directory with the files.
func shellTools(dir string) (*tools.Registry, error) {
	shell, err := tools.NewTool(toolShell, "Run a command with sh. The outputs of earlier tools are files in its directory. Shows at most 30,000 characters.", func(ctx context.Context, _ tools.Call, in shellArgs) *tools.Result {
		cmd := exec.CommandContext(ctx, "sh", "-c", in.Command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return tools.Failure(fmt.Errorf("%w: %s", err, out))
		}
		return tools.NewToolResult(firstRunes(string(out), fileChars))
	})
	if err != nil {
		return nil, err
	}
	registry := tools.NewRegistry(zerolog.Nop())
	return registry, registry.Register(shell)
}

// registryOf returns a registry with the tools, or with those that have one of the names.
func registryOf(all []tools.Tool, names ...string) (*tools.Registry, error) {
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(all...); err != nil || len(names) == 0 {
		return registry, err
	}
	return registry, registry.Keep(names...)
}

// tables returns n orders, their users and the countries of cities: what three tools return.
func tables(n int) scene {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	type order struct {
		id, user, amount int
		city, status     string
	}
	statuses, countries := []string{"paid", "open", "refused"}, []string{"Portugal", "Japan", "Ecuador", "Estonia", "Namibia"}
	plans := []string{"free", "pro", "team"}
	amounts := r.Perm(n * 10) // all different, so that the greatest are
	users, plan := max(n/5, 10), []string{}
	var csv, people, places strings.Builder
	csv.WriteString("id,user_id,city,amount,status\n")
	people.WriteString("[")
	for i := range users {
		plan = append(plan, plans[r.IntN(3)])
		fmt.Fprintf(&people, `%s{"id":%d,"name":"user %d","plan":"%s","email":"u%d@example.org"}`, []string{"", ","}[min(i, 1)], i, i, plan[i], i)
	}
	people.WriteString("]")
	values := []string{}
	places.WriteString("city,country\n")
	for i, city := range cities {
		fmt.Fprintf(&places, "%s,%s\n", city, countries[i])
		values = append(values, fmt.Sprintf("('%s','%s')", city, countries[i]))
	}
	orders, absent := []order{}, r.IntN(users-1)
	perUser, perCity, perCountry := map[string]int{}, map[string]int{}, map[string]int{}
	paid, proPaid, top := 0, 0, order{amount: -1}
	for i := range n {
		o := order{10_000 + i, r.IntN(users), amounts[i], cities[r.IntN(5)], statuses[r.IntN(3)]}
		if i%4 == 0 {
			o.user = users - 1 // the most frequent one
		}
		if o.user == absent {
			o.user++
		}
		orders = append(orders, o)
		fmt.Fprintf(&csv, "%d,%d,%s,%d,%s\n", o.id, o.user, o.city, o.amount, o.status)
		perUser[fmt.Sprint(o.user)]++
		perCity[o.city] += o.amount
		perCountry[countries[slices.Index(cities, o.city)]] += o.amount
		if o.city == "Quito" && o.status == "paid" {
			paid++
		}
		if plan[o.user] == "pro" && o.status == "paid" {
			proPaid += o.amount
		}
		if o.amount > top.amount {
			top = o
		}
	}
	// The other users without orders get one, so that one user has none.
	for u := range users {
		if u != absent && perUser[fmt.Sprint(u)] == 0 {
			id := 10_000 + n + u
			fmt.Fprintf(&csv, "%d,%d,Osaka,0,open\n", id, u)
			orders = append(orders, order{id: id, user: u, city: "Osaka", status: "open"})
		}
	}
	middle, last := orders[n/2], orders[len(orders)-1]
	both, all := []int{0, 1}, []int{0}
	ask := func(text string, answer any, needs []int, sql, shell string) task {
		return task{question{text: text, answer: fmt.Sprint(answer)}, needs, sql, shell}
	}
	found := ask("What is the status of the order "+fmt.Sprint(middle.id)+"?", middle.status, all, fmt.Sprintf("SELECT status FROM t1 WHERE id = %d", middle.id), fmt.Sprintf("grep ^%d, orders.csv", middle.id))
	found.pattern = fmt.Sprintf("^%d,", middle.id)
	end := ask("What is the id of the last order?", last.id, all, "SELECT max(id) FROM t1", "tail -n 1 orders.csv")
	counted := ask("How many paid orders are from Quito?", paid, all, "SELECT count(*) FROM t1 WHERE city = 'Quito' AND status = 'paid'", "grep -c ',Quito,.*,paid$' orders.csv")
	counted.pattern, counted.counts = `,Quito,\d+,paid$`, true
	return scene{fmt.Sprintf("%d orders, %d users, 5 cities", len(orders), users), []file{{"orders.csv", csv.String()}, {"users.json", people.String()}, {"cities.csv", places.String()}}, []task{
		found, end, counted,
		ask("Which city has the highest sum of amounts?", most(perCity), all, "SELECT city, sum(amount) FROM t1 GROUP BY 1 ORDER BY 2 DESC LIMIT 1", "awk -F, 'NR>1{s[$3]+=$4}END{for(c in s)print s[c],c}' orders.csv | sort -rn | head -n 1"),
		ask("Which order has the highest amount?", top.id, all, "SELECT id FROM t1 ORDER BY amount DESC LIMIT 1", "sort -t, -k4,4rn orders.csv | head -n 1"),
		ask("Which user has the most orders?", users-1, all, "SELECT user_id, count(*) FROM t1 GROUP BY 1 ORDER BY 2 DESC LIMIT 1", "cut -d, -f2 orders.csv | sort | uniq -c | sort -rn | head -n 1"),
		ask("Which user has no order?", absent, both, "SELECT id FROM t2 WHERE id NOT IN (SELECT user_id FROM t1)",
			`tr '}' '\n' < users.json | sed -n 's/.*"id":\([0-9]*\),.*/\1/p' | sort > /tmp/$$; cut -d, -f2 orders.csv | sort -u | comm -13 - /tmp/$$; rm /tmp/$$`),
		ask("What is the sum of the paid amounts of users with the plan pro?", proPaid, both, "SELECT sum(amount) FROM t1 JOIN t2 ON t2.id = user_id WHERE plan = 'pro' AND status = 'paid'",
			`tr '}' '\n' < users.json | sed -n 's/.*"id":\([0-9]*\),.*"plan":"pro".*/\1/p' | awk -F, 'FNR==NR{pro[$1]=1;next} $5=="paid"&&($2 in pro){s+=$4}END{print s}' - orders.csv`),
		ask("Which country has the highest sum of amounts?", most(perCountry), []int{0, 2}, "WITH places(city, country) AS (VALUES "+strings.Join(values, ",")+") SELECT country, sum(amount) FROM t1 JOIN places USING (city) GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
			"awk -F, 'FNR==NR{c[$1]=$2;next} FNR>1{s[c[$3]]+=$4}END{for(k in s)print s[k],k}' cities.csv orders.csv | sort -rn | head -n 1"),
	}}
}

func most(counts map[string]int) (name string) {
	for key, n := range counts {
		if name == "" || n > counts[name] {
			name = key
		}
	}
	return name
}

// snapshots is the output of one command at two times.
func snapshots() scene {
	r := rand.New(rand.NewPCG(seed, 7))
	var before, after strings.Builder
	gone, changed := "", 0
	for _, b := range []*strings.Builder{&before, &after} {
		b.WriteString("NAME                 READY  STATUS   RESTARTS\n")
	}
	for i := range 3_000 {
		name, restarts := fmt.Sprintf("web-%05d", i), r.IntN(3)
		fmt.Fprintf(&before, "%-20s 1/1    Running  %d\n", name, restarts)
		switch {
		case i == 1_234:
			gone = name
			continue
		case r.IntN(100) == 0:
			changed++
			restarts += 5
		}
		fmt.Fprintf(&after, "%-20s 1/1    Running  %d\n", name, restarts)
	}
	return scene{"a listing of 3,000 pods, twice", []file{{"before.txt", before.String()}, {"after.txt", after.String()}}, []task{
		{question{text: "Which pod is gone?", answer: gone}, []int{0, 1}, "SELECT NAME FROM t1 EXCEPT SELECT NAME FROM t2", "diff before.txt after.txt | cut -c1-22 | sort -k2 | uniq -u -f1"},
		{question{text: "How many pods restarted?", answer: fmt.Sprint(changed)}, []int{0, 1}, "SELECT count(*) FROM (SELECT NAME, RESTARTS FROM t2 EXCEPT SELECT NAME, RESTARTS FROM t1)", "diff before.txt after.txt | grep -c '^>'"},
	}}
}

// utterances have labels that only an aggregation over all lines answers, as in OOLONG.
func utterances() scene {
	r := rand.New(rand.NewPCG(seed, 9))
	labels := []string{"question", "request", "complaint", "praise"}
	var b strings.Builder
	counts, june := map[string]int{}, map[string]int{}
	for i := range 4_000 {
		label, month := labels[min(r.IntN(5), 3)], 1+r.IntN(12)
		counts[label]++
		if month == 6 {
			june[label]++
		}
		fmt.Fprintf(&b, `{"n":%d,"month":%d,"user":"u%d","label":"%s","text":"utterance %d of a user"}`+"\n", i, month, r.IntN(40), label, i)
	}
	least := labels[0]
	for _, label := range labels {
		if june[label] < june[least] {
			least = label
		}
	}
	return scene{"4,000 labelled utterances", []file{{"utterances.ndjson", b.String()}}, []task{
		{question{text: "Which label is the most frequent?", answer: most(counts)}, []int{0}, "SELECT label, count(*) FROM t1 GROUP BY 1 ORDER BY 2 DESC LIMIT 1", `grep -o '"label":"[a-z]*"' utterances.ndjson | sort | uniq -c | sort -rn | head -n 1`},
		{question{text: "Which label is the rarest in June?", answer: least}, []int{0}, "SELECT label, count(*) FROM t1 WHERE month = 6 GROUP BY 1 ORDER BY 2 LIMIT 1", `grep '"month":6,' utterances.ndjson | grep -o '"label":"[a-z]*"' | sort | uniq -c | sort -n | head -n 1`},
	}}
}

// parallel are results that arrive together, each short enough to be shown in full.
func parallel() scene {
	r := rand.New(rand.NewPCG(seed, 11))
	s := scene{name: "30 logs of 28,000 characters"}
	for i := range 30 {
		var b strings.Builder
		for line := range 400 {
			fmt.Fprintf(&b, "2026-03-01T10:%02d:%02d service-%02d INFO request r-%02d-%03d took %4d milliseconds\n", line/60, line%60, i, i, line, r.IntN(9_000))
		}
		name := fmt.Sprintf("r-%02d-%03d", i, 100+i)
		took := strings.TrimSpace(field(b.String(), name+" took ", " milliseconds"))
		s.texts = append(s.texts, file{fmt.Sprintf("service-%02d.log", i), b.String()})
		if i%7 == 6 {
			s.tasks = append(s.tasks, task{question{text: "How long did the request " + name + " take?", answer: took, pattern: name}, []int{i}, "", "grep -h " + name + " *.log"})
		}
	}
	return s
}

// machine is a real listing: the files of Go's standard library.
func machine() (scene, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return scene{}, err
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	var b strings.Builder
	b.WriteString("size,path\n")
	largest, path, tests := int64(0), "", 0
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(name, "testdata") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		fmt.Fprintf(&b, "%d,%s\n", info.Size(), rel)
		if info.Size() > largest {
			largest, path = info.Size(), rel
		}
		if strings.HasSuffix(rel, "_test.go") {
			tests++
		}
		return nil
	})
	count := task{question{text: "How many files are tests?", answer: fmt.Sprint(tests), pattern: `_test\.go$`, counts: true}, []int{0}, "SELECT count(*) FROM t1 WHERE path LIKE '%\\_test.go' ESCAPE '\\'", "grep -c '_test.go$' files.csv"}
	return scene{"the files of Go's library", []file{{"files.csv", b.String()}}, []task{count,
		{question{text: "Which file is the largest?", answer: path}, []int{0}, "SELECT path FROM t1 ORDER BY size DESC LIMIT 1", "sort -t, -k1,1rn files.csv | head -n 1"},
	}}, err
}

// scenes are all conversations. An error means that the machine has no Go.
func scenes() ([]scene, error) {
	real, err := machine()
	return []scene{tables(50), tables(200), tables(500), tables(50_000), snapshots(), utterances(), parallel(), real}, err
}

// acrossScore is the sum of conversations in one way.
type acrossScore struct{ right, asked, calls, characters, definitions int }

// across holds all conversations in all ways; the key is the name of a scene and a way.
func across(all []scene) (scores map[[2]string]acrossScore, wrong []string, err error) {
	scores = map[[2]string]acrossScore{}
	for _, scene := range all {
		store := mem.New(offload.StoreConfig{})
		reading := offload.NewReader(store, offload.ReaderConfig{SQL: sqlite.Engine{}}).Tools()
		dir, err := os.MkdirTemp("", "stevedore-eval-")
		if err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(dir)
		offloader := offload.NewOffloader(store, offload.Config{Budget: 100_000})
		var ids, references []string
		for i, f := range scene.texts {
			if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o600); err != nil {
				return nil, nil, err
			}
			res, err := offloader.Result(context.Background(), tools.Call{ID: fmt.Sprint("call_", i), Session: "eval", Tool: "fetch"}, tools.Definition{}, tools.NewToolResult(f.text))
			if err != nil {
				return nil, nil, err
			}
			id := ""
			if res.Artifact != nil {
				id = res.Artifact.ID
			}
			ids, references = append(ids, id), append(references, res.ForLLM)
		}
		for _, way := range ways {
			c := &conversation{scene: scene, ids: ids}
			score := acrossScore{}
			for i, f := range scene.texts {
				notice := way.notice(f, references[i])
				c.notices = append(c.notices, notice)
				score.characters += len(notice)
			}
			if way.tools != nil {
				if c.registry, err = way.tools(reading, dir); err != nil {
					return nil, nil, err
				}
				for _, def := range c.registry.Definitions() {
					schema, err := def.Parameters.MarshalJSON()
					if err != nil {
						return nil, nil, err
					}
					score.definitions += len(def.Name) + len(def.Description) + len(schema)
				}
			}
			for _, t := range scene.tasks {
				before := c.calls
				c.calls = 0 // greedy gives up after some calls of one question
				if score.asked++; !c.overflows() && way.answer(c, t) {
					score.right++
				} else {
					wrong = append(wrong, fmt.Sprintf("%s, %s: %s (%s)", scene.name, way.name, t.text, t.answer))
				}
				c.calls += before
			}
			score.calls = c.calls
			score.characters += c.read.Len() + score.definitions
			scores[[2]string{scene.name, way.name}] = score
		}
	}
	return scores, wrong, nil
}

// reportAcross writes the second table of docs/eval.md.
func reportAcross(w io.Writer, all []scene, scores map[[2]string]acrossScore) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "conversation\thow the model reads\tright\tcalls\tcharacters in the prompt\tof that, definitions\t")
	for _, scene := range all {
		for _, way := range ways {
			s := scores[[2]string{scene.name, way.name}]
			fmt.Fprintf(table, "%s\t%s\t%d of %d\t%d\t%d\t%d\t\n", scene.name, way.name, s.right, s.asked, s.calls, s.characters, s.definitions)
		}
	}
	return table.Flush()
}

// A model that asks SQL answers all questions, also those across results, for less than what the
// alternatives need.
func TestAcross(t *testing.T) {
	all := []scene{tables(50), tables(5_000), snapshots(), utterances(), parallel()}
	scores, wrong, err := across(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, scene := range all {
		for _, name := range []string{"stevedore", "files and shell"} {
			if name != "stevedore" && len(scene.texts) == 30 {
				continue // no result is long enough for a file, and together they overflow the context
			}
			if s := scores[[2]string{scene.name, name}]; s.right != s.asked {
				t.Errorf("%s, %s: %d of %d\n%s", scene.name, name, s.right, s.asked, strings.Join(wrong, "\n"))
			}
		}
		s := scores[[2]string{scene.name, "stevedore"}]
		if per := (s.characters - s.definitions) / s.asked; len(scene.texts[0].text) > 40_000 && per > 2_500 {
			t.Errorf("%s: %d characters per question", scene.name, per)
		}
	}
	if s := scores[[2]string{all[1].name, "cut to 25,000 tokens"}]; s.right == s.asked {
		t.Error("a reader of cut tables answers all questions")
	}
}
