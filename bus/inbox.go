package bus

import "strings"

// IsInbox reports whether the reply subject of a request is an inbox. The server does not
// check whether a client may publish to the reply subject of its request, so the client
// could make this process publish the answer as a result, a call or a stored value.
func (s Subjects) IsInbox(reply string) bool {
	first, _, _ := strings.Cut(reply, ".")
	if strings.HasPrefix(reply, s.prefix+".") {
		return false
	}
	// _INBOX, _INBOX_alice, inbox, and _R_ of another account.
	return strings.HasPrefix(first, "_") || strings.Contains(strings.ToLower(first), "inbox")
}
