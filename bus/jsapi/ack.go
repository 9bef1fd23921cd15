package jsapi

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PubAck is the answer of a stream to a publish.
type PubAck struct {
	Sequence  uint64
	Duplicate bool // the stream had a message with the same Nats-Msg-Id
}

// ParsePubAck decodes the reply to a publish. A *jetstream.APIError means that the stream
// rejected the message, ErrNoStreamResponse that no stream has the subject,
// ErrInvalidJSAck that the reply is not an acknowledgement.
func ParsePubAck(msg *nats.Msg) (PubAck, error) {
	if seq, ok := parsePlainAck(msg.Data); ok {
		return PubAck{Sequence: seq}, nil
	}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return PubAck{}, jetstream.ErrNoStreamResponse
	}
	var reply struct {
		Stream    string              `json:"stream"`
		Sequence  uint64              `json:"seq"`
		Duplicate bool                `json:"duplicate"`
		Error     *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(msg.Data, &reply); {
	case err != nil, reply.Error == nil && reply.Stream == "":
		return PubAck{}, jetstream.ErrInvalidJSAck
	case reply.Error != nil:
		return PubAck{}, reply.Error
	}
	return PubAck{Sequence: reply.Sequence, Duplicate: reply.Duplicate}, nil
}

// parsePlainAck decodes {"stream":"NAME","seq":17}, the form of almost every
// acknowledgement, without the cost of encoding/json.
func parsePlainAck(data []byte) (sequence uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	_, rest, found := bytes.Cut(rest, []byte(`","seq":`))
	digits, ends := bytes.CutSuffix(rest, []byte("}"))
	sequence, err := strconv.ParseUint(string(digits), 10, 64)
	return sequence, ok && found && ends && err == nil
}
