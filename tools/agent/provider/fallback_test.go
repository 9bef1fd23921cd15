package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// model answers with its name, or fails.
type model struct {
	name    string
	cost    float64
	failure *agent.ProviderError
	asked   int
	probes  int
}

func (m *model) Complete(_ context.Context, req agent.Request) (agent.Response, error) {
	m.asked++
	if req.Probe {
		m.probes++
	}
	if m.failure != nil {
		return agent.Response{}, m.failure
	}
	return agent.Response{Model: m.name, Usage: agent.Usage{Cost: m.cost}}, nil
}

var (
	overloaded = &agent.ProviderError{Code: agent.CodeOverloaded, Retryable: true}
	noCredit   = &agent.ProviderError{Code: agent.CodeNoCredit}
	badRequest = &agent.ProviderError{Code: agent.CodeBadRequest}
)

// The second model answers while the first one is down, at its own cost, and the first one
// answers within a minute of its return.
func TestFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := &model{name: "first", cost: 5}, &model{name: "second", cost: 1}
		var log bytes.Buffer
		f := provider.NewFallback(30*time.Second, zerolog.New(&log),
			provider.Candidate{Spec: "a", Provider: first}, provider.Candidate{Spec: "b", Provider: second})
		ask := func() (answer string, cost float64) {
			t.Helper()
			res, err := f.Complete(t.Context(), agent.Request{})
			if err != nil {
				return err.(*agent.ProviderError).Code, 0
			}
			return res.Model, res.Usage.Cost
		}
		expect := func(when, want string, wantCost float64) {
			t.Helper()
			if got, cost := ask(); got != want || cost != wantCost {
				t.Errorf("%s: %s answers for %v, want %s for %v", when, got, cost, want, wantCost)
			}
		}
		expect("at first", "first", 5)
		first.failure = overloaded
		expect("a short failure", agent.CodeOverloaded, 0)
		time.Sleep(29 * time.Second)
		expect("a longer failure", agent.CodeOverloaded, 0)
		time.Sleep(time.Second)
		expect("after 30 s", "second", 1)
		asked := first.asked
		for range 50 {
			time.Sleep(time.Second)
			expect("while it is down", "second", 1)
		}
		if first.asked != asked {
			t.Errorf("the model that is down was asked %d times in 50 s", first.asked-asked)
		}
		time.Sleep(10 * time.Second)
		expect("a probe", "second", 1)
		if first.asked != asked+1 || first.probes != 1 {
			t.Errorf("after a minute, %d requests and %d probes", first.asked-asked, first.probes)
		}
		second.failure = badRequest
		expect("the second rejects the request", agent.CodeBadRequest, 0)
		time.Sleep(time.Minute)
		expect("both fail, the first one for a time", agent.CodeOverloaded, 0)
		first.failure, second.failure = nil, nil
		expect("before the next probe", "second", 1)
		time.Sleep(time.Minute)
		expect("it is back", "first", 5)
		first.failure = overloaded
		expect("a new failure", agent.CodeOverloaded, 0)
		first.failure = badRequest
		expect("a request that no model takes", agent.CodeBadRequest, 0)
		first.failure = noCredit
		expect("no credit", "second", 1)
		if n := strings.Count(log.String(), "the model is down; another one answers"); n != 2 || strings.Count(log.String(), "answers again") != 1 {
			t.Errorf("log: %s", log.String())
		}
	})
}

// An error of a list names each model that failed, also one that was not asked again.
func TestFallbackNamesTheModels(t *testing.T) {
	t.Parallel()
	rejects := func(status int, message string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":%q}}`, message)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	var candidates []provider.Candidate
	for spec, url := range map[string]string{"anthropic:A": rejects(http.StatusPaymentRequired, "pay"), "openai:B": rejects(http.StatusUnauthorized, "no such key")} {
		p, err := provider.Open(spec, provider.Config{BaseURL: url})
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, provider.Candidate{Spec: spec, Provider: p})
	}
	slices.SortFunc(candidates, func(a, b provider.Candidate) int { return strings.Compare(a.Spec, b.Spec) })
	f := provider.NewFallback(time.Minute, zerolog.Nop(), candidates...)
	const want = "openai:B: the API key is missing or was rejected; check it: no such key; anthropic:A: the account has no credit: pay"
	register := new(trouble.Register) // a key that is rejected is a problem, although nothing tries again
	for range 2 {
		if _, err := f.Complete(register.With(t.Context()), agent.Request{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if list := register.List(); len(list) != 2 || list[1].Name != "openai:B" || list[0].Kind != trouble.ModelRefused || list[1].Kind != trouble.ModelRefused {
		t.Errorf("reported: %+v", list)
	}
}

// A model has one problem at a time: the last answer of its provider.
func TestModelHasOneProblem(t *testing.T) {
	t.Parallel()
	status := http.StatusPaymentRequired
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"message":"no"}}`)
	}))
	t.Cleanup(server.Close)
	p, err := provider.Open("openai:B", provider.Config{BaseURL: server.URL, RetryTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	register := new(trouble.Register)
	for _, step := range []struct {
		status int
		want   trouble.Kind
	}{{http.StatusPaymentRequired, trouble.ModelRefused}, {http.StatusUnauthorized, trouble.ModelRefused}, {http.StatusServiceUnavailable, trouble.Model}, {http.StatusNotFound, trouble.ModelRefused},
		{http.StatusOK, trouble.ModelRefused}} { // the answer is not that of a model
		status = step.status
		if _, err := p.Complete(register.With(t.Context()), agent.Request{}); err == nil {
			t.Errorf("%d is no error", step.status)
		}
		if list := register.List(); len(list) != 1 || list[0].Kind != step.want {
			t.Errorf("after %d: %+v", step.status, list)
		}
	}
}
