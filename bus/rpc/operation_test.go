package rpc_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// Each operation has one name and one subject.
func TestOperationsAreUnique(t *testing.T) {
	t.Parallel()
	var names, subjects []string
	for _, op := range rpc.Operations() {
		names = append(names, op.Name)
		if op.Subject != "" {
			subjects = append(subjects, op.Subject)
		}
		if op.Summary == "" || op.In == nil || op.Out == nil {
			t.Errorf("%s is not described", op.Name)
		}
	}
	for _, all := range [][]string{names, subjects} {
		slices.Sort(all)
		if unique := slices.Compact(slices.Clone(all)); len(unique) != len(all) {
			t.Errorf("a name or subject occurs twice: %q", all)
		}
	}
}

// The service decides for all operations in one place what a valid request is.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	serve(t, b, mem.New(offload.StoreConfig{}))
	for _, test := range []struct{ subject, body, code, text string }{
		{"task.s.explode", `{}`, rpc.CodeUnknown, "known are list, get, cancel"},
		{"approvals.explode", `{}`, rpc.CodeUnknown, "known are list"},
		{"task.s.cancel", `{"id":"x","reson":"typo"}`, tools.CodeInvalidArguments, "reson"}, // it changes something
		{"task.s.get", `{"id":"x","later":1}`, tools.CodeNotFound, ""},                      // a later version may add a field
		{"task.s.get", `{"id":7}`, tools.CodeInvalidArguments, "want a string"},
		{"task.s.get", `{}`, tools.CodeInvalidArguments, "give its id"},
		{"task.a;b.list", `{}`, tools.CodeInvalidArguments, "the session in the subject"},
		{"artifact.a;b.get", `{}`, tools.CodeInvalidArguments, "the session in the subject"},
		{"approval.s.yes", `{"id":"x","ID":"y"}`, tools.CodeInvalidArguments, ""},
	} {
		msg, err := b.Conn().Request(b.RPC(strings.Split(test.subject, ".")...), []byte(test.body), bustest.Timeout)
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		if code := msg.Header.Get("Nats-Service-Error-Code"); code != test.code || !strings.Contains(string(msg.Data), test.text) {
			t.Errorf("%+v: %s %s", test, code, msg.Data)
		}
	}
}

// A list of approvals that is too long says what it leaves out.
func TestApprovalsThatAreOmitted(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var parked sync.WaitGroup
	for i := range 201 {
		parked.Go(func() {
			call := tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "shell"}
			p := task.Parked{Call: call, Queue: "default", State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}
			if _, err := task.Park(t.Context(), b, p); err != nil {
				t.Error(err)
			}
		})
	}
	parked.Wait()
	list, err := rpc.ListAllApprovals.Do(t.Context(), b, "", struct{}{})
	if err != nil || len(list.Approvals) != 200 || list.Omitted != 1 || !strings.HasSuffix(list.Text(), "\n(and 1 more)") {
		t.Errorf("%d approvals, %d omitted, %v", len(list.Approvals), list.Omitted, err)
	}
}

// An operation that needs no store runs also in a process of its own.
func TestOperationWithoutAWorker(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	list, err := rpc.ListTasks.Here(t.Context(), b, "s", rpc.TaskRequest{})
	if err != nil || len(list.Tasks) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := rpc.GetTask.Here(t.Context(), b, "s", rpc.TaskRequest{ID: "none"}); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("a task that does not exist: %v", err)
	}
}
