package process

import (
	"slices"
	"testing"
)

// A list of tools is split at its commas. A pattern with a comma stays whole, because a
// part of it would match nothing and let calls run.
func TestApprovalRules(t *testing.T) {
	o := &approvalOptions{Rules: []string{"shell,write_file", "cron:rm -r{1,2}"}}
	rules, err := o.parse()
	var tools []string
	for _, r := range rules {
		tools = append(tools, r.tool)
	}
	if err != nil || !slices.Equal(tools, []string{"shell", "write_file", "cron"}) || !rules[2].pattern.MatchString("rm -rr") {
		t.Errorf("got %q, %v", tools, err)
	}
	for _, wrong := range []string{"", "shell,", "shell,write_file:rm", "shell:(", "2}"} {
		o := &approvalOptions{Rules: []string{wrong}}
		if _, err := o.parse(); err == nil {
			t.Errorf("--ask %q is accepted", wrong)
		}
	}
}
