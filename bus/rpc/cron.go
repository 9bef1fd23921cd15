package rpc

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

// CronRequest holds the arguments of all functions that keep jobs.
type CronRequest struct {
	cron.Request
	// Session in full, for who adds a job in a session that stands in the
	// subject as a hash of its name. Otherwise the subject says it all.
	Session string `json:"session,omitempty"`
	// Key names the request: added again with the same, a job is the same.
	Key string `json:"key,omitempty"`
}

// cron keeps the jobs of a session: <prefix>.rpc.cron.<session>.<function>. The
// session is the subject's, which the broker's permissions guard. Who may publish
// there may have any tool called in that session, as with <prefix>.call.>; models
// have a tool that lets them do less.
func (s *Service) cron(ctx context.Context, req micro.Request) (any, error) {
	tokens := s.bus.Split(req.Subject())
	session, function := tokens[2], tokens[3]
	var in CronRequest
	dec := json.NewDecoder(bytes.NewReader(orEmpty(req.Data())))
	dec.DisallowUnknownFields() // or a wrong word, such as every_seconds, changes nothing
	if err := dec.Decode(&in); err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request is not a JSON object of arguments: %v", err)
	}
	if in.Session != "" && tools.Token(in.Session) != session {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request names the session %q, its subject %q", tools.Excerpt(in.Session, 80), tools.Excerpt(session, 80))
	}
	in.Action = function
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	answer, err := cron.New(s.bus).Do(ctx, cron.Caller{Session: in.Session, Token: session}, in.Key, in.Request)
	if err != nil {
		return nil, err
	}
	return answer, nil
}
