package task_test

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// The first answer to an approval counts, whoever gives the second one.
func TestFirstAnswerCounts(t *testing.T) {
	b := bustest.New(t)
	k := tools.CallKey{Session: "s", ID: "c"}
	if _, won, err := task.WriteAnswer(t.Context(), b, k, task.Answer{At: time.Now(), By: "first"}); err != nil || !won {
		t.Fatalf("won %v, %v", won, err)
	}
	stored, won, err := task.WriteAnswer(t.Context(), b, k, task.Answer{Approve: true, At: time.Now(), By: "second"})
	if err != nil || won || stored.Approve || stored.By != "first" {
		t.Errorf("the second answer: won %v, stored %+v, %v", won, stored, err)
	}
}
