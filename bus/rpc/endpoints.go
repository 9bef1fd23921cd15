package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// callEndpoint is the name of the endpoint for calls; see ServiceConfig.Stats.
const callEndpoint = "call"

// call submits a call and answers with its result:
// <prefix>.rpc.call.<queue>.<tool>[.<session>.<id>].
func (s *Service) call(ctx context.Context, req micro.Request) (any, error) {
	queue, call, err := s.decodeCall(req)
	if err != nil {
		return nil, err
	}
	stored, err := submit(traceOf(ctx, req), s.bus, queue, call)
	if errors.Is(err, ErrPending) {
		return nil, tools.Errorf(tools.CodeTimeout, "no result after %s; the call is still queued or running, and its result will be published", callTimeout)
	}
	if dead, ok := errors.AsType[*DeadLetterError](err); ok {
		return nil, tools.Errorf(dead.Code, "%v", dead)
	}
	return stored.Body, rejection(err)
}

// submit stores a call and answers with the Acceptance:
// <prefix>.rpc.submit.<queue>.<tool>[.<session>.<id>].
func (s *Service) submit(ctx context.Context, req micro.Request) (any, error) {
	queue, call, err := s.decodeCall(req)
	if err != nil {
		return nil, err
	}
	accepted, err := Enqueue(traceOf(ctx, req), s.bus, queue, call)
	return accepted, rejection(err)
}

// traceOf returns ctx with the trace of a request.
func traceOf(ctx context.Context, req micro.Request) context.Context {
	return tracing.From(ctx, req.Headers().Get(tracing.Header))
}

// CodeFull is the error code if the calls stream is full.
const CodeFull = "full"

// rejection gives the errors of Submit that a client can handle a code.
func rejection(err error) error {
	if errors.Is(err, bus.ErrFull) {
		return tools.Errorf(CodeFull, "%v", err)
	}
	return err
}

// decodeCall returns the call of a request. The session and the id of its subject apply.
func (s *Service) decodeCall(req micro.Request) (queue string, call tools.Call, err error) {
	tokens := s.bus.Split(req.Subject())[1:] // as those of a call, but for the first one
	subject := bus.CallSubject{Queue: tokens[1], Tool: tokens[2]}
	if len(tokens) > 3 {
		subject.Session, subject.ID = tokens[3], tokens[4]
	}
	for _, token := range tokens {
		if !tools.IsToken(token) {
			return "", call, tools.Errorf(tools.CodeInvalidCall, "invalid subject %q: queue, tool, session and id must be of the form %s", tools.Excerpt(req.Subject(), 200), tools.TokenForm)
		}
	}
	call, err = tools.DecodeCall(orEmpty(req.Data()))
	if err != nil {
		return "", call, tools.Errorf(tools.CodeInvalidCall, "%v", err)
	}
	if call.Tool != "" && call.Tool != subject.Tool {
		return "", call, tools.Errorf(tools.CodeInvalidCall, "the call names the tool %q, but its subject names %q", tools.Excerpt(call.Tool, 80), tools.Excerpt(subject.Tool, 80))
	}
	call.Tool = subject.Tool
	if subject.ID != "" {
		err = task.Identify(&call, subject)
	}
	return subject.Queue, call, err
}

// ReadRequest holds the arguments of all functions that read artifacts; each
// function ignores the arguments of the others.
type ReadRequest struct {
	ArtifactID string            `json:"artifact_id,omitempty"`
	Offset     int64             `json:"offset,omitempty"`
	Limit      int64             `json:"limit,omitempty"`
	StartLine  int64             `json:"start_line,omitempty"`
	EndLine    int64             `json:"end_line,omitempty"`
	Query      string            `json:"query,omitempty"`
	SQL        string            `json:"sql,omitempty"`
	Artifacts  []string          `json:"artifacts,omitempty"`
	Filter     map[string]string `json:"filter,omitempty"`
	TaskID     string            `json:"task_id,omitempty"`
	offload.GrepQuery
}

// artifact reads an artifact: <prefix>.rpc.artifact.<session>.<function>. The
// session is part of the subject, so the server's permissions protect it.
func (s *Service) artifact(ctx context.Context, req micro.Request) (any, error) {
	tokens := s.bus.Split(req.Subject())
	session, function := tokens[2], tokens[3]
	in, err := decodeRead(function, orEmpty(req.Data()))
	if err != nil {
		return nil, badRequest(err)
	}
	switch function {
	case "get":
		return s.reader.GetByID(ctx, session, in.ArtifactID, in.Offset, in.Limit)
	case "read":
		page, err := s.reader.Read(ctx, session, in.ArtifactID, in.Offset, in.Limit)
		return (*ReadPage)(page), err
	case "lines":
		return s.reader.GetByLines(ctx, session, in.ArtifactID, offload.LinesQuery{StartLine: in.StartLine, EndLine: in.EndLine, Cursor: in.Cursor})
	case "grep":
		return s.reader.Grep(ctx, session, in.ArtifactID, in.GrepQuery)
	case "jq":
		return s.reader.JQ(ctx, session, in.ArtifactID, offload.JQQuery{Query: in.Query, Cursor: in.Cursor})
	case "sql":
		return s.reader.SQL(ctx, session, offload.SQLQuery{SQL: in.SQL, Artifacts: in.Artifacts, Cursor: in.Cursor})
	case "query":
		return s.reader.QueryPage(ctx, session, in.Filter, int(in.Offset), int(in.Limit))
	case "info":
		if in.ArtifactID != "" {
			return s.reader.Record(ctx, session, in.ArtifactID)
		}
		return s.reader.OffloadInfoPage(ctx, session, in.TaskID, int(in.Offset), int(in.Limit))
	case "record":
		return s.reader.Record(ctx, session, in.ArtifactID)
	case "rm":
		return s.reader.Delete(ctx, session, in.ArtifactID)
	}
	return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown function %q; known are get, read, lines, grep, jq, sql, query, info, record, rm", tools.Excerpt(function, 80))
}

// artifacts lists the artifacts of all sessions: <prefix>.rpc.artifacts.list.
func (s *Service) artifacts(ctx context.Context, req micro.Request) (any, error) {
	if function := s.bus.Split(req.Subject())[2]; function != "list" {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown function %q; known is list", tools.Excerpt(function, 80))
	}
	in, err := decodeRead("query", orEmpty(req.Data()))
	if err != nil {
		return nil, badRequest(err)
	}
	return s.reader.QueryAll(ctx, int(in.Offset), int(in.Limit))
}

// readTools are the tools whose arguments the functions take.
var readTools = map[string]string{
	"get": offload.ToolGet, "read": offload.ToolGet, "lines": offload.ToolLines, "grep": offload.ToolGrep,
	"jq": offload.ToolJQ, "sql": offload.ToolSQL, "query": offload.ToolQuery, "info": offload.ToolInfo,
}

// decodeRead decodes a request. Like a call of the tool, it accepts numbers as strings
// and aliases.
func decodeRead(function string, data []byte) (in ReadRequest, err error) {
	if err = json.Unmarshal(data, &in); err == nil && in.ArtifactID != "" {
		return in, nil
	}
	var again ReadRequest
	if json.Unmarshal(offload.CoerceArguments(readTools[function], data), &again) == nil {
		return again, nil
	}
	return in, err
}

// ReadPage is a page for programs: its JSON has no text in addition to the content.
type ReadPage offload.Page

// Bytes are the exact bytes of the page.
func (p *ReadPage) Bytes() []byte { return (*offload.Page)(p).Bytes() }

// task lists, gets and cancels the calls of a session:
// <prefix>.rpc.task.<session>.<function>.
func (s *Service) task(ctx context.Context, req micro.Request) (any, error) {
	tokens := s.bus.Split(req.Subject())
	session, function := tokens[2], tokens[3]
	var in TaskRequest
	if err := json.Unmarshal(orEmpty(req.Data()), &in); err != nil {
		return nil, badRequest(err)
	}
	if !tools.IsToken(session) {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the session in the subject must be of the form %s", tools.TokenForm)
	}
	if function == "list" && in.Page != (task.Page{}) {
		return task.ListPage(ctx, s.bus, session, in.Page)
	}
	if function == "list" {
		return task.List(ctx, s.bus, session)
	}
	if in.ID == "" {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the request names no task; give its id")
	}
	id := tools.TokenOf(in.ID)
	switch function {
	case "get":
		return task.Get(ctx, s.bus, session, id)
	case "cancel":
		return task.Cancel(ctx, s.bus, session, id, "a client")
	}
	return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown function %q; known are list, get, cancel", tools.Excerpt(function, 80))
}

// TaskRequest holds the arguments of the functions for tasks.
type TaskRequest struct {
	// ID is the id of the call or its token, for get and cancel.
	ID string `json:"id,omitempty"`
	// Page is for list; the zero value lists all, up to 500 tasks.
	task.Page
}

func orEmpty(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}

// badRequest returns the error for a request that cannot be decoded, without Go terms.
func badRequest(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		return tools.Errorf(tools.CodeInvalidArguments, "%s is a %s; want %s", field, wrong.Value, jsonName(wrong.Type))
	}
	return tools.Errorf(tools.CodeInvalidArguments, "the request is not a JSON object of arguments: %v", err)
}

func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "an array"
	}
	return "a whole number"
}
