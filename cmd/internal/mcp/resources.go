package mcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// private tells clients not to cache: a new artifact may exist with the next call.
var private = mcp.Cacheable{CacheScope: "private"}

// ask asks a worker about the artifacts of the session.
func ask[In, Out any](ctx context.Context, c *client, op *rpc.Op[In, Out], in In) (Out, error) {
	out, err := op.Do(ctx, c.gateway.bus, c.session, in)
	if errors.Is(err, nats.ErrNoResponders) {
		err = errors.New("no worker is running that can read artifacts; start one and try again")
	}
	return out, err
}

// read answers resources/read with a page of an artifact.
func (c *client) read(ctx context.Context, r *mcp.ReadResourceRequest) (mcp.Result, error) {
	a, err := artifacts.ParseURI(r.Params.URI)
	if err != nil {
		return nil, invalid(err)
	}
	if a.Session != c.session { // whether it exists there is nobody's business
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	rec, err := ask(ctx, c, rpc.ArtifactRecord, rpc.ArtifactRequest{ArtifactID: a.ID})
	if err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	page, err := ask(ctx, c, rpc.GetArtifact, rpc.ReadRequest{ArtifactID: a.ID, Offset: a.Offset, Limit: a.Limit})
	if err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	return &mcp.ReadResourceResult{Cacheable: private, Contents: artifacts.Contents(a, rec.Artifact, page)}, nil
}

func invalid(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}

func resourceError(uri string, err error) error {
	switch tools.CodeOf(err) {
	case tools.CodeNotFound:
		return mcp.ResourceNotFoundError(uri)
	case tools.CodeInvalidArguments, tools.CodeExpired:
		return invalid(err)
	}
	return fmt.Errorf("read %q: %w", uri, err)
}

// list answers resources/list with the artifacts of the session, the newest first.
func (c *client) list(ctx context.Context, r *mcp.ListResourcesRequest) (mcp.Result, error) {
	cursor := ""
	if r.Params != nil { // the request has some
		cursor = r.Params.Cursor
	}
	page, err := artifacts.List(cursor, func(offset int) (*offload.Listing, error) {
		return ask(ctx, c, rpc.QueryArtifacts, rpc.ReadRequest{Offset: int64(offset)})
	})
	if tools.CodeOf(err) == tools.CodeInvalidArguments {
		return nil, invalid(err)
	}
	if err != nil {
		return nil, err
	}
	page.Cacheable = private
	return page, nil
}
