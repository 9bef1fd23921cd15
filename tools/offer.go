package tools

import "github.com/google/jsonschema-go/jsonschema"

// Offer is what a worker says of itself to those who ask: which queues it
// serves, and with which tools.
type Offer struct {
	Worker string        `json:"worker"`
	Queues []string      `json:"queues"`
	Tools  []OfferedTool `json:"tools"`
}

// OfferedTool is a tool as clients and models get to know it.
type OfferedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Effect      Effect `json:"effect,omitempty"`
	// Parameters is the JSON Schema of the arguments; nil if it was left out,
	// because all of them together do not fit into a message.
	Parameters *jsonschema.Schema `json:"parameters,omitempty"`
}

// OfferQuery says whom a question is for. The zero value is for all workers.
type OfferQuery struct {
	// Queue is for the workers that serve it, Tool for those that have it; an
	// answer to this names no other tool.
	Queue string `json:"queue,omitempty"`
	Tool  string `json:"tool,omitempty"`
	// Brief leaves out the tools.
	Brief bool `json:"brief,omitempty"`
}
