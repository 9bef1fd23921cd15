package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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

// request sends a request about the artifacts of the session to a worker.
func (c *client) request(ctx context.Context, function string, in, out any) error {
	body, err := rpc.Request(ctx, c.gateway.bus, c.gateway.bus.RPC("artifact", c.session, function), in)
	if errors.Is(err, nats.ErrNoResponders) {
		return errors.New("no worker is running that can read artifacts; start one and try again")
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, out)
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
	var rec offload.Record
	if err := c.request(ctx, "record", rpc.ReadRequest{ArtifactID: a.ID}, &rec); err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	limit := a.Limit
	if limit <= 0 || limit > offload.PageChars {
		limit = offload.PageChars
	}
	var page offload.Page
	if err := c.request(ctx, "read", rpc.ReadRequest{ArtifactID: a.ID, Offset: a.Offset, Limit: limit}, &page); err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	contents := artifacts.Text(a, rec.Artifact, &page)
	if page.Data != nil { // not text
		contents[0].Text, contents[0].Blob = "", page.Data
	}
	return &mcp.ReadResourceResult{Cacheable: private, Contents: contents}, nil
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
func (c *client) list(ctx context.Context) (mcp.Result, error) {
	var listing offload.Listing
	if err := c.request(ctx, "query", rpc.ReadRequest{}, &listing); err != nil {
		return nil, err
	}
	res := &mcp.ListResourcesResult{Cacheable: private, Resources: []*mcp.Resource{}}
	for _, a := range slices.Backward(listing.Artifacts) {
		res.Resources = append(res.Resources, artifacts.ResourceOf(offload.Record{Artifact: a.Artifact, Session: c.session, Metadata: a.Metadata}))
	}
	return res, nil
}
