package rpc

import (
	"context"

	"github.com/stevedore-bus/stevedore/offload"
)

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
	Path       string            `json:"path,omitempty"`
	Header     *bool             `json:"header,omitempty"`
	Delimiter  string            `json:"delimiter,omitempty"`
	Artifacts  []string          `json:"artifacts,omitempty"`
	Filter     map[string]string `json:"filter,omitempty"`
	TaskID     string            `json:"task_id,omitempty"`
	offload.GrepQuery
}

// ArtifactRequest names an artifact.
type ArtifactRequest struct {
	ArtifactID string `json:"artifact_id"`
}

// ReadPage is a page for programs: its JSON has no text in addition to the content.
type ReadPage offload.Page

// Bytes are the exact bytes of the page.
func (p *ReadPage) Bytes() []byte { return (*offload.Page)(p).Bytes() }

// The operations that read and remove artifacts. Each is one of a session, except ListAllArtifacts.
var (
	GetArtifact = Define("readArtifact", "artifact.SESSION.get", "Read characters of an artifact.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.Page, error) {
			return env.Reader.GetByID(ctx, env.session(), in.ArtifactID, in.Offset, in.Limit)
		}).like(offload.ToolGet)
	ReadArtifact = Define("readArtifactPage", "artifact.SESSION.read", "Read a larger page, for programs.",
		func(ctx context.Context, env Env, in ReadRequest) (*ReadPage, error) {
			page, err := env.Reader.Read(ctx, env.session(), in.ArtifactID, in.Offset, in.Limit)
			return (*ReadPage)(page), err
		}).like(offload.ToolGet)
	ArtifactLines = Define("readArtifactLines", "artifact.SESSION.lines", "Read lines of an artifact.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.Lines, error) {
			return env.Reader.GetByLines(ctx, env.session(), in.ArtifactID, offload.LinesQuery{StartLine: in.StartLine, EndLine: in.EndLine, Cursor: in.Cursor})
		}).like(offload.ToolLines)
	GrepArtifact = Define("grepArtifact", "artifact.SESSION.grep", "Search the lines of an artifact.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.GrepResult, error) {
			return env.Reader.Grep(ctx, env.session(), in.ArtifactID, in.GrepQuery)
		}).like(offload.ToolGrep)
	JQArtifact = Define("jqArtifact", "artifact.SESSION.jq", "Run a jq query on an artifact.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.JQResult, error) {
			return env.Reader.JQ(ctx, env.session(), in.ArtifactID, offload.JQQuery{Query: in.Query, Cursor: in.Cursor})
		}).like(offload.ToolJQ)
	SQLArtifacts = Define("sqlArtifacts", "artifact.SESSION.sql", "Run a SELECT on artifacts that are tables.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.SQLResult, error) {
			if len(in.Artifacts) == 0 && in.ArtifactID != "" {
				in.Artifacts = []string{in.ArtifactID}
			}
			return env.Reader.SQL(ctx, env.session(), offload.SQLQuery{
				SQL: in.SQL, Artifacts: in.Artifacts, Path: in.Path, Header: in.Header, Delimiter: in.Delimiter, Cursor: in.Cursor,
			})
		}).like(offload.ToolSQL)
	QueryArtifacts = Define("queryArtifacts", "artifact.SESSION.query", "List artifacts by their metadata.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.Listing, error) {
			return env.Reader.Query(ctx, env.session(), in.Filter, int(in.Offset), int(in.Limit))
		}).like(offload.ToolQuery)
	ListAllArtifacts = Define("listAllArtifacts", "artifacts.list", "List the artifacts of all sessions.",
		func(ctx context.Context, env Env, in ReadRequest) (*offload.Listing, error) {
			return env.Reader.QueryAll(ctx, int(in.Offset), int(in.Limit))
		}).like(offload.ToolQuery)
	ArtifactInfo = Define("artifactInfo", "artifact.SESSION.info", "List the offloaded results of a task, or get one record.",
		func(ctx context.Context, env Env, in ReadRequest) (any, error) {
			if in.ArtifactID != "" {
				return env.Reader.Record(ctx, env.session(), in.ArtifactID)
			}
			return env.Reader.OffloadInfo(ctx, env.session(), in.TaskID, int(in.Offset), int(in.Limit))
		}).like(offload.ToolInfo)
	ArtifactRecord = Define("artifactRecord", "artifact.SESSION.record", "Get the record of an artifact.",
		func(ctx context.Context, env Env, in ArtifactRequest) (offload.Record, error) {
			return env.Reader.Record(ctx, env.session(), in.ArtifactID)
		})
	RemoveArtifact = Define("removeArtifact", "artifact.SESSION.rm", "Remove an artifact.",
		func(ctx context.Context, env Env, in ArtifactRequest) (offload.Record, error) {
			return env.Reader.Delete(ctx, env.session(), in.ArtifactID)
		}).Changing()
)
