package task

import (
	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Identify completes a call that arrived on a subject. The session and the id of the
// subject apply, because the server's permissions protect them. The body may omit both, or
// have the ids whose tokens are in the subject. If it names another call, Identify returns
// an error, and the call has the tokens of the subject.
func Identify(call *tools.Call, subject bus.CallSubject) error {
	sessionErr := identify(&call.Session, subject.Session, "session")
	if err := identify(&call.ID, subject.ID, "id"); err != nil {
		return err
	}
	return sessionErr
}

func identify(name *string, token, field string) (err error) {
	switch {
	case *name != "" && tools.Token(*name) == token:
		return nil
	case *name != "":
		err = tools.Errorf(tools.CodeInvalidCall, "the body has the %s %q, but the subject has %q; the subject decides, so send the same %s or omit it",
			field, tools.Excerpt(*name, 80), tools.Excerpt(token, 80), field)
	case tools.Token(token) != token:
		err = tools.Errorf(tools.CodeInvalidCall, "the %s in the subject, %q, is the hash of another %s; the body must contain that %s", field, tools.Excerpt(token, 80), field, field)
	}
	*name = token
	return err
}
