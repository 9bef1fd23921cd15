package notify

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// Prepare returns what a bridge shows of a notification in the outbox. A *tools.Error means that
// the notification can never be delivered. subject is that of the notification, if it is known.
func (n *Notifier) Prepare(ctx context.Context, name string, bridge *channel.Bridge, subject string, body []byte) (channel.Prepared, error) {
	sent, err := n.withBridgeFile(ctx, name, bridge, subject, body)
	if err != nil {
		return channel.Prepared{}, err
	}
	if sent.File != nil {
		defer sent.File.Close()
	}
	prepared, err := bridge.Prepare(sent)
	if code, refused := consume.Rejected(err); refused {
		return prepared, &tools.Error{Code: code, Message: err.Error()}
	}
	if err == nil {
		err = n.addReceived(ctx, bridge, sent)
	}
	return prepared, err
}

// filePiece is how much of a file a bridge gets at once, in bytes.
const filePiece = 256 << 10

// FilePiece returns a piece of the file of a notification, at most 256 KiB.
func (n *Notifier) FilePiece(
	ctx context.Context, name string, bridge *channel.Bridge, subject string, body []byte, offset int64,
) ([]byte, error) {
	sent, err := n.withBridgeFile(ctx, name, bridge, subject, body)
	if err != nil {
		return nil, err
	}
	if sent.File != nil {
		defer sent.File.Close()
	}
	if sent.File == nil || offset < 0 || offset > sent.File.Size {
		return nil, tools.Errorf(tools.CodeNotFound, "the notification has no such file")
	}
	return io.ReadAll(io.NewSectionReader(sent.File.Content, offset, min(filePiece, sent.File.Size-offset)))
}

// withBridgeFile decodes a notification, and opens its file.
func (n *Notifier) withBridgeFile(
	ctx context.Context, name string, bridge *channel.Bridge, subject string, body []byte,
) (channel.Notification, error) {
	sent, err := decode(name, body, tools.Token(string(body)), time.Now()) // the bridge knows no more of it
	if err != nil {
		return sent, tools.Errorf(consume.CodeUndecodable, "%v", err)
	}
	if subject != "" && subject != n.bus.NotifyAny(name) {
		if err := n.checkChat(&sent, subject); err != nil {
			return sent, tools.Errorf(consume.CodeUndecodable, "%v", err)
		}
	}
	return n.withFile(ctx, bridge, sent)
}

// Reject makes a notification of a channel a dead letter: its bridge cannot deliver it.
func (n *Notifier) Reject(ctx context.Context, name string, rejected channel.BridgeRejection) error {
	for m, err := range n.bus.Read(ctx, bus.Outbox, bus.Query{From: rejected.Sequence, Before: rejected.Sequence + 1}) {
		if err != nil {
			return err
		}
		if tokens := n.bus.Split(m.Subject); len(tokens) < 2 || tokens[1] != name {
			return tools.Errorf(tools.CodeNotFound, "the notification %d is not one of this channel", rejected.Sequence)
		}
		return dead.GiveUp(ctx, n.bus, bus.Outbox, m, rejected.Attempts, tools.Token(rejected.Code), fmt.Errorf("the bridge gave it up: %s", rejected.Reason))
	}
	return nil // settled
}
