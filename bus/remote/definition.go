package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxDefinition  = 256 << 10
	maxDescription = 4 << 10
)

// Definition is the response to a definition request. The operator sets the name and
// the treatment of results.
type Definition struct {
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters"`
	Effect      tools.Effect       `json:"effect"`
	// Artifacts is true if the worker replaces arguments {"$artifact":"ID"}.
	Artifacts bool `json:"artifacts"`
}

// readDefinition requests the definition. ok is false if no process answers; the
// definition is then a default one.
func (t *Tool) readDefinition(ctx context.Context, name string) (def tools.Definition, ok bool, err error) {
	def = tools.Definition{Name: name, Description: fmt.Sprintf("A tool at %s.", t.subject), Effect: tools.Once}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.RetryTimeout)
	defer cancel()
	msg, err := t.request(ctx, t.subject+".definition", nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return def, false, nil
	case err != nil:
		return def, false, fmt.Errorf("request its definition: %w", err)
	}
	if err := errorOf(msg); err != nil {
		return def, false, fmt.Errorf("request its definition: %w", err)
	}
	d, err := decodeDefinition(msg.Data)
	if err != nil {
		return def, false, fmt.Errorf("its definition: %w", err)
	}
	if d.Description != "" {
		def.Description = d.Description
	}
	def.Parameters, def.AcceptsArtifacts = d.Parameters, d.Artifacts
	if d.Effect != "" {
		def.Effect = d.Effect
	}
	return def, true, nil
}

func decodeDefinition(data []byte) (Definition, error) {
	var d Definition
	if len(data) > maxDefinition {
		return d, fmt.Errorf("it has %d bytes; at most %d are accepted", len(data), maxDefinition)
	}
	if !utf8.Valid(data) {
		return d, errors.New("it is not valid UTF-8")
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf(`%w; want {"description": "...", "parameters": {...}, "effect": "once"}`, err)
	}
	switch d.Effect {
	case "", tools.Once, tools.Keyed, tools.Idempotent:
	default:
		return d, fmt.Errorf("its effect is %q; want once, keyed or idempotent", tools.Excerpt(string(d.Effect), 80))
	}
	if d.Parameters != nil && d.Parameters.Type != "object" {
		return d, errors.New(`its parameters are not a JSON schema of "type": "object"`)
	}
	if d.Parameters != nil {
		if _, err := d.Parameters.Resolve(nil); err != nil { // loads no other document
			return d, fmt.Errorf("its parameters: %w", err)
		}
	}
	d.Description = tools.Excerpt(strings.TrimSpace(d.Description), maxDescription)
	return d, nil
}
