package eval

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

const seed = 18

// TestReport prints the tables of docs/eval.md, and asks a real model if a key is set.
func TestReport(t *testing.T) {
	if os.Getenv("STEVEDORE_EVAL") == "" {
		t.Skip("set STEVEDORE_EVAL=1, as make eval does")
	}
	if err := run(os.Stdout, os.Getenv, os.Getenv("EVAL_WRONG") != ""); err != nil {
		t.Fatal(err)
	}
}

// score is a line of the table.
type score struct {
	name                string
	right, calls, asked int
	tokens              int64
	definitions         int64 // tokens of the tools' definitions, which are part of tokens
	wrong               []string
}

// offloadedResult is a result and its reference.
type offloadedResult struct {
	result
	id, reference string // of the artifact
}

// policy is a scripted way to read a result.
type policy struct {
	name   string
	answer func(*session, question) bool
	inFile bool // instead of an artifact
}

var policies = []policy{{"offloaded, naive", naive, false}, {"offloaded, faulty arguments", faulty, false}, {"offloaded, greedy", greedy, false}, {"file and grep", fileAndGrep, true}}

// alternatives to offloading return what the model reads, and whether it answers.
var alternatives = []struct {
	name string
	read func(text string, q question) (string, bool)
}{{"pasted whole", paste}, {"truncated to 25,000 tokens", truncate}}

func run(w io.Writer, env func(string) string, verbose bool) error {
	model, err := modelFrom(env)
	if err != nil {
		return err
	}
	offloaded, registry, err := offloadAll()
	if err != nil {
		return err
	}
	scores, err := askPolicies(offloaded, registry, policies)
	if err != nil {
		return err
	}
	if err := report(w, append(scores, askAlternatives(offloaded)...), verbose); err != nil {
		return err
	}
	conversations, err := scenes()
	if err != nil {
		return err
	}
	results, wrong, err := across(conversations)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := reportAcross(w, conversations, results); err != nil {
		return err
	}
	if verbose {
		fmt.Fprintln(w, "wrong: "+strings.Join(wrong, "\nwrong: "))
	}
	return askRealModel(w, model, offloaded, registry, verbose)
}

// askRealModel asks the model of the settings, if they name one.
func askRealModel(w io.Writer, model modelSettings, offloaded []offloadedResult, registry *tools.Registry, verbose bool) error {
	if model.spec == "" {
		_, err := io.WriteString(w, noModel)
		return err
	}
	scores, err := askModel(context.Background(), model, offloaded, registry)
	if err != nil {
		return err
	}
	return report(w, scores, verbose)
}

// offloadAll offloads the 15 results.
func offloadAll() (offloaded []offloadedResult, registry *tools.Registry, err error) {
	store := mem.New(offload.StoreConfig{})
	if registry, err = registryOf(offload.NewReader(store, offload.ReaderConfig{SQL: sqlite.Engine{}}).Tools()); err != nil {
		return nil, nil, err
	}
	offloader := offload.NewOffloader(store, offload.Config{})
	for i, r := range generate(seed) {
		res, err := offloader.Result(context.Background(), tools.Call{ID: fmt.Sprint("call_", i), Session: "eval", Tool: "fetch"}, tools.Definition{}, tools.NewToolResult(r.text))
		if err != nil {
			return nil, nil, err
		}
		if res.Artifact == nil {
			return nil, nil, fmt.Errorf("%s is not offloaded", r.name)
		}
		offloaded = append(offloaded, offloadedResult{r, res.Artifact.ID, res.ForLLM})
	}
	return offloaded, registry, nil
}

func askPolicies(offloaded []offloadedResult, registry *tools.Registry, policies []policy) ([]score, error) {
	scores := make([]score, len(policies))
	for _, r := range offloaded {
		file, err := fileTools(r.text)
		if err != nil {
			return nil, err
		}
		for _, q := range r.questions {
			for k, p := range policies {
				s := &session{registry: registry, id: r.id, notice: r.reference, longLines: hasLongLines(r.text)}
				if p.inFile {
					s.registry, s.notice = file, fileNotice(r.text)
				}
				right := q.isWordOf(s.notice) && !q.counts || p.answer(s, q) // the preview may have it
				definitions, err := definitionTokens(s.registry)
				if err != nil {
					return nil, err
				}
				scores[k].definitions += definitions
				scores[k].add(p.name, r.result, q, right, s.calls, definitions+offload.EstimateTokens(s.notice)+offload.EstimateTokens(s.read.String()))
			}
		}
	}
	return scores, nil
}

func askAlternatives(offloaded []offloadedResult) []score {
	scores := make([]score, len(alternatives))
	for _, r := range offloaded {
		for _, q := range r.questions {
			for k, a := range alternatives {
				text, right := a.read(r.text, q)
				scores[k].add(a.name, r.result, q, right, 1, offload.EstimateTokens(text))
			}
		}
	}
	return scores
}

func (s *score) add(name string, r result, q question, right bool, calls int, tokens int64) {
	s.name = name
	s.asked++
	s.calls += calls
	s.tokens += tokens
	if right {
		s.right++
	} else {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: %s (%s)", r.name, q.text, q.answer))
	}
}

func report(w io.Writer, scores []score, verbose bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "how the model reads\tright\tcalls\ttokens in the prompt\tper question\tof that, definitions\t")
	for _, s := range scores {
		fmt.Fprintf(table, "%s\t%d of %d\t%d\t%d\t%d\t%d\t\n", s.name, s.right, s.asked, s.calls, s.tokens, s.tokens/int64(s.asked), s.definitions/int64(s.asked))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if verbose {
		for _, s := range scores {
			for _, q := range s.wrong {
				fmt.Fprintf(w, "wrong, %s: %s\n", s.name, q)
			}
		}
	}
	return nil
}
