// Eval measures how well models get the right answers out of offloaded results, and what
// that costs. Scripted policies ask 60 questions about 15 generated results; with a key, a
// real model does so too.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

const seed = 18

func main() {
	if err := run(os.Stdout, os.Getenv, len(os.Args) > 1 && os.Args[1] == "-v"); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
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
	reference string
}

func run(w io.Writer, env func(string) string, verbose bool) error {
	model, err := modelFrom(env)
	if err != nil {
		return err
	}
	policies := []struct {
		name   string
		policy func(*session, question) bool
		inFile bool // instead of an artifact
	}{{"offloaded, naive", naive, false}, {"offloaded, faulty arguments", faulty, false}, {"offloaded, greedy", greedy, false}, {"file and grep", fileAndGrep, true}}
	alternatives := []struct {
		name string
		read func(text string, q question) (string, bool)
	}{{"pasted whole", paste}, {"truncated to 25,000 tokens", truncate}}
	scores := make([]score, len(policies)+len(alternatives))

	store := mem.New(offload.StoreConfig{})
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(offload.NewReader(store, offload.ReaderConfig{}).Tools()...); err != nil {
		return err
	}
	offloader := offload.NewOffloader(store, offload.Config{})
	var offloaded []offloadedResult
	for i, r := range generate(seed) {
		res, err := offloader.Result(context.Background(), tools.Call{ID: fmt.Sprint("call_", i), Session: "eval", Tool: "fetch"}, tools.Definition{}, tools.NewToolResult(r.text))
		if err != nil {
			return err
		}
		if res.Artifact == nil {
			return fmt.Errorf("%s is not offloaded", r.name)
		}
		offloaded = append(offloaded, offloadedResult{r, res.ForLLM})
		file, err := fileTools(r.text)
		if err != nil {
			return err
		}
		for _, q := range r.questions {
			for k, p := range policies {
				s := &session{registry: registry, id: res.Artifact.ID, notice: res.ForLLM, longLines: hasLongLines(r.text)}
				if p.inFile {
					s.registry, s.notice = file, fileNotice(r.text)
				}
				right := q.isWordOf(s.notice) && !q.counts || p.policy(s, q) // the preview may have it
				definitions, err := definitionTokens(s.registry)
				if err != nil {
					return err
				}
				scores[k].definitions += definitions
				scores[k].add(p.name, r, q, right, s.calls, definitions+offload.EstimateTokens(s.notice)+offload.EstimateTokens(s.read.String()))
			}
			for k, a := range alternatives {
				text, right := a.read(r.text, q)
				scores[len(policies)+k].add(a.name, r, q, right, 1, offload.EstimateTokens(text))
			}
		}
	}
	if err := report(w, scores, verbose); err != nil {
		return err
	}
	if model.spec == "" {
		_, err := io.WriteString(w, noModel)
		return err
	}
	if scores, err = askModel(context.Background(), model, offloaded, registry); err != nil {
		return err
	}
	return report(w, scores, verbose)
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
