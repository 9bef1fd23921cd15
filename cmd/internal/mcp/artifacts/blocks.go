package artifacts

import "encoding/json"

// Block is a content block of a tool's result: a text, an image, a sound or a file. Its
// JSON is the one of chat APIs for images, and otherwise that of MCP. It reads both
// forms of each.
type Block struct {
	Type      string // text, image, audio or file
	Text      string
	Data      []byte
	MediaType string
	URI       string // of a file
}

type blockJSON struct {
	Type     string      `json:"type"`
	Text     *string     `json:"text,omitempty"`
	Data     []byte      `json:"data,omitempty"`
	MIMEType string      `json:"mimeType,omitempty"`
	URI      string      `json:"uri,omitempty"`
	Source   *sourceJSON `json:"source,omitempty"`
}

type sourceJSON struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

// MarshalJSON implements json.Marshaler.
func (b Block) MarshalJSON() ([]byte, error) {
	switch b.Type {
	case "text":
		return json.Marshal(blockJSON{Type: b.Type, Text: &b.Text})
	case "image":
		return json.Marshal(blockJSON{Type: b.Type, Source: &sourceJSON{"base64", b.MediaType, b.Data}})
	}
	return b.MCP()
}

// MCP returns the block in the form of MCP.
func (b Block) MCP() (json.RawMessage, error) {
	v := blockJSON{Type: b.Type, Data: b.Data, MIMEType: b.MediaType, URI: b.URI}
	if b.Type == "text" {
		v.Text = &b.Text
	}
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Block) UnmarshalJSON(data []byte) error {
	var v blockJSON
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*b = Block{Type: v.Type, Data: v.Data, MediaType: v.MIMEType, URI: v.URI}
	if v.Text != nil {
		b.Text = *v.Text
	}
	if v.Source != nil && v.Source.Type == "base64" {
		b.Data, b.MediaType = v.Source.Data, v.Source.MediaType
	}
	return nil
}
