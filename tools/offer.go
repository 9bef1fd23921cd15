package tools

import "github.com/google/jsonschema-go/jsonschema"

// Offer is a worker's answer to a client: the queues that it consumes and its tools.
type Offer struct {
	Worker string        `json:"worker"`
	Queues []string      `json:"queues"`
	Tools  []OfferedTool `json:"tools"`
}

// OfferedTool describes a tool to clients and models.
type OfferedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Effect      Effect `json:"effect,omitempty"`
	// Parameters is the JSON Schema of the arguments. It is nil if all schemas
	// together do not fit into a message.
	Parameters *jsonschema.Schema `json:"parameters,omitempty"`
}

// OfferQuery selects the workers that answer. The zero value selects all.
type OfferQuery struct {
	// Queue selects the workers that consume it. Tool selects the workers that have
	// it; their offers contain no other tool.
	Queue string `json:"queue,omitempty"`
	Tool  string `json:"tool,omitempty"`
	// Brief leaves out the tools.
	Brief bool `json:"brief,omitempty"`
}
