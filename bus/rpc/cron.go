package rpc

import (
	"cmp"
	"context"

	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

// CronRequest holds the arguments of all functions for cron jobs.
type CronRequest struct {
	cron.Request
	// Session is the full session id. It is required to add a job if the subject
	// contains only the hash of the session.
	Session string `json:"session,omitempty"`
	// Key makes "add" and "update" idempotent: a repeated request with the same key returns the
	// same job.
	Key string `json:"key,omitempty"`
}

// CronQuery is a CronRequest that changes nothing; unknown fields are ignored.
type CronQuery CronRequest

// maxListedJobs is the most jobs of a list, whose answer must fit into a message.
const maxListedJobs = 500

// cronOperations manage the cron jobs of a session. The session is part of the subject, so the
// server's permissions protect it. A client that may publish there can have any tool called in that
// session, as with <prefix>.call.>. The tool for models is more restricted.
func cronOperations() (ops []*Operation) {
	for _, action := range []string{cron.ActionAdd, cron.ActionList, cron.ActionGet, cron.ActionUpdate, cron.ActionRemove, cron.ActionEnable, cron.ActionDisable} {
		name, subject, summary := action+"Job", "cron.SESSION."+action, "Manage jobs: "+action+"."
		change := func(ctx context.Context, env Env, in CronRequest) (none cron.Answer, err error) {
			session := env.session()
			if in.Session != "" && tools.Token(in.Session) != session {
				return none, tools.Errorf(tools.CodeInvalidArguments, "the request names the session %q, but its subject names %q",
					tools.Excerpt(in.Session, 80), tools.Excerpt(session, 80))
			}
			in.Action, in.Limit = action, min(cmp.Or(in.Limit, maxListedJobs), maxListedJobs)
			return cron.New(env.Bus).Do(ctx, cron.Caller{Session: in.Session, Token: session}, in.Key, in.Request)
		}
		if action == cron.ActionList || action == cron.ActionGet {
			ops = append(ops, &Define(name, subject, summary, func(ctx context.Context, env Env, in CronQuery) (cron.Answer, error) {
				return change(ctx, env, CronRequest(in))
			}).Operation)
			continue
		}
		ops = append(ops, &Define(name, subject, summary, change).Changing().Operation)
	}
	return ops
}
