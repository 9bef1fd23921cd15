package rpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

// CronRequest holds the arguments of all functions for cron jobs.
type CronRequest struct {
	cron.Request
	// Session is the full session id. It is required to add a job if the subject
	// contains only the hash of the session.
	Session string `json:"session,omitempty"`
	// Key makes "add" idempotent: a repeated request with the same key returns the
	// same job.
	Key string `json:"key,omitempty"`
}

// maxListedJobs is the most jobs of a list, whose answer must fit into a message.
const maxListedJobs = 500

// cron manages the cron jobs of a session: <prefix>.rpc.cron.<session>.<function>.
// The session is part of the subject, so the server's permissions protect it. A
// client that may publish there can have any tool called in that session, as with
// <prefix>.call.>. The tool for models is more restricted.
func (s *Service) cron(ctx context.Context, req micro.Request) (any, error) {
	tokens := s.bus.Split(req.Subject())
	session, function := tokens[2], tokens[3]
	var in CronRequest
	dec := json.NewDecoder(bytes.NewReader(orEmpty(req.Data())))
	dec.DisallowUnknownFields() // a misspelled field must not be ignored
	if err := dec.Decode(&in); err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request is not a JSON object of arguments: %v", err)
	}
	if in.Session != "" && tools.Token(in.Session) != session {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request names the session %q, but its subject names %q", tools.Excerpt(in.Session, 80), tools.Excerpt(session, 80))
	}
	in.Action, in.Limit = function, min(cmp.Or(in.Limit, maxListedJobs), maxListedJobs)
	answer, err := s.jobs.Do(ctx, cron.Caller{Session: in.Session, Token: session}, in.Key, in.Request)
	if err != nil {
		return nil, err
	}
	return answer, nil
}
