package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/tools/retry"
)

// Snapshot describes a copy of a stream: the file backup.json of the nats CLI.
type Snapshot struct {
	Config jetstream.StreamConfig `json:"config"`
	State  json.RawMessage        `json:"state"` // as the server sent it
}

const (
	// snapshotIdle is the time that a server may take for the next part of a copy.
	snapshotIdle = 30 * time.Second
	// restoreTimeout is the time that a server may take to load a copy that it received.
	restoreTimeout = 10 * time.Minute
	restoreChunk   = 64 << 10
)

// SaveStream writes a copy of a stream and of its consumers to w, in the format of the
// server. The server checks each message before. The stream may be in use; the copy has
// what it contained at the start.
func (a API) SaveStream(ctx context.Context, stream string, w io.Writer) (Snapshot, error) {
	sub, err := a.nc.SubscribeSync(a.nc.NewInbox())
	if err != nil {
		return Snapshot{}, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return Snapshot{}, err
	}
	var s Snapshot
	request := map[string]any{"deliver_subject": sub.Subject, "jsck": true}
	if err := a.ask(ctx, "STREAM.SNAPSHOT."+stream, request, &s); err != nil {
		return Snapshot{}, err
	}
	for {
		idle, cancel := context.WithTimeout(ctx, snapshotIdle)
		msg, err := sub.NextMsgWithContext(idle)
		cancel()
		if err != nil {
			return Snapshot{}, fmt.Errorf("the copy of stream %s stopped: %w", stream, err)
		}
		if len(msg.Data) == 0 {
			if status := msg.Header.Get("Status"); status != "" && status != "204" {
				return Snapshot{}, fmt.Errorf("the server could not copy stream %s: %s %s", stream, status, msg.Header.Get("Description"))
			}
			return s, nil
		}
		if _, err := w.Write(msg.Data); err != nil {
			return Snapshot{}, err
		}
		if msg.Reply != "" { // the server waits for these if it is far ahead
			if err := a.nc.Publish(msg.Reply, nil); err != nil {
				return Snapshot{}, err
			}
		}
	}
}

// LoadStream creates a stream and its consumers from a copy. The error is
// jetstream.ErrStreamNameAlreadyInUse if a stream of that name exists.
func (a API) LoadStream(ctx context.Context, s Snapshot, r io.Reader) error {
	var target struct {
		Subject string `json:"deliver_subject"`
	}
	if err := a.ask(ctx, "STREAM.RESTORE."+s.Config.Name, s, &target); err != nil {
		return err
	}
	chunk := make([]byte, restoreChunk)
	for {
		n, err := io.ReadFull(r, chunk)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err // the server keeps a stream with what it has
		}
		timeout := snapshotIdle
		if n == 0 { // the empty message ends the copy
			timeout = restoreTimeout
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		msg, err := a.send(limited, target.Subject, chunk[:n])
		cancel()
		if err != nil {
			return fmt.Errorf("the server does not take the copy of stream %s: %w", s.Config.Name, err)
		}
		if len(msg.Data) > 0 {
			if err := apiError(msg.Data, nil); err != nil {
				return err
			}
		}
		if n == 0 {
			return nil
		}
	}
}

// send sends a part of a copy. The servers of a cluster learn of the subject from its leader, shortly after
// the client does, so a part that nobody took is sent again.
func (a API) send(ctx context.Context, subject string, part []byte) (*nats.Msg, error) {
	var msg *nats.Msg
	final := func(err error) bool { return !errors.Is(err, nats.ErrNoResponders) }
	err := retry.Do(ctx, retry.Pauses(100*time.Millisecond, time.Second, 5*time.Second), final, nil, func() (err error) {
		msg, err = a.nc.RequestWithContext(ctx, subject, part)
		return err
	})
	return msg, err
}

// ask sends a request about a copy and decodes its answer.
func (a API) ask(ctx context.Context, request string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotIdle)
	defer cancel()
	reply, err := a.request(ctx, request, in)
	if errors.Is(err, nats.ErrNoResponders) {
		return jetstream.ErrJetStreamNotEnabled
	}
	if err != nil {
		return err
	}
	return apiError(reply.Data, out)
}

// apiError decodes an answer of the API into out, which may be nil, or returns its error.
func apiError(body []byte, out any) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(body, &answer); {
	case err != nil:
		return fmt.Errorf("read the answer of the server: %w", err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNameInUse:
		return jetstream.ErrStreamNameAlreadyInUse
	case answer.Error != nil:
		return answer.Error
	case out == nil:
		return nil
	}
	return json.Unmarshal(body, out)
}
