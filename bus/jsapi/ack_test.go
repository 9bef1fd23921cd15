package jsapi

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestParsePubAck(t *testing.T) {
	for body, want := range map[string]PubAck{
		`{"stream":"S","seq":17}`:                                {Sequence: 17},
		`{"stream":"S","seq":17,"duplicate": true}`:              {Sequence: 17, Duplicate: true},
		`{"stream":"S", "domain":"hub", "seq":17}`:               {Sequence: 17},
		`{"stream":"S","seq":17,"batch":"b","count":1}`:          {Sequence: 17},
		`{"stream":"a\",\"seq\":1}","seq":18446744073709551615}`: {Sequence: 1<<64 - 1},
	} {
		if got, err := ParsePubAck(&nats.Msg{Data: []byte(body)}); err != nil || got != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for _, body := range []string{``, `{}`, `{"stream":"S","seq":-1}`, `+OK`} {
		if got, err := ParsePubAck(&nats.Msg{Data: []byte(body)}); !errors.Is(err, jetstream.ErrInvalidJSAck) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	rejected := `{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"},"stream":"S","seq":0}`
	_, err := ParsePubAck(&nats.Msg{Data: []byte(rejected)})
	if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != 10077 {
		t.Errorf("rejected: %v", err)
	}
	noStream := &nats.Msg{Header: nats.Header{"Status": {"503"}}}
	if _, err := ParsePubAck(noStream); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("no responders: %v", err)
	}
}

func FuzzPlainAck(f *testing.F) {
	f.Add([]byte(`{"stream":"S","seq":17}`))
	f.Add([]byte(`{"stream":"S","x":"","seq":17}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		seq, ok := parsePlainAck(data)
		var reply struct {
			Sequence uint64 `json:"seq"`
		}
		if !ok || !json.Valid(data) { // servers send valid JSON
			return
		}
		if err := json.Unmarshal(data, &reply); err != nil || reply.Sequence != seq {
			t.Errorf("%s: %d, want %d, %v", data, seq, reply.Sequence, err)
		}
	})
}
