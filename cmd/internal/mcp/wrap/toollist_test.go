package wrap

import "testing"

// Some servers send hints as strings. They neither spoil the list nor count as true: a call of
// such a tool is not sent twice, and neither is one of a name that two tools have.
func TestHintsThatAreNoBooleans(t *testing.T) {
	t.Parallel()
	p := &proxy{}
	_, cursor := p.learn([]byte(`{"tools":[{"name":"safe","annotations":{"readOnlyHint":true},"title":5},{"name":5},`+
		`{"name":"text","annotations":{"readOnlyHint":"true","idempotentHint":1}},`+
		`{"name":"two"},{"name":"two","annotations":{"readOnlyHint":true}}],"nextCursor":"more"}`), true)
	if cursor != "more" || !p.known["safe"].repeatable || p.known["text"].repeatable || p.known["two"].repeatable {
		t.Errorf("cursor %q, known %+v", cursor, p.known)
	}
	if p.toolsListed(&request{firstPage: true}, nil); len(p.known) != 3 || p.listed {
		t.Errorf("after an error, %+v are known, all: %v", p.known, p.listed)
	}
	if got := p.toolsListed(&request{}, []byte(`{"tools":[{"name":5}]}`)); string(got) != `{"tools":[]}` {
		t.Errorf("of a list of odd tools, a worker gets %s", got)
	}
}
