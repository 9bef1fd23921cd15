package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

// withFile returns a notification with the file that it names, if the channel sends that. Otherwise,
// a note says why not, and how the user gets the file. The caller closes the file.
func (n *Notifier) withFile(ctx context.Context, to channel.Channel, sent channel.Notification) (channel.Notification, error) {
	if sent.Artifact == nil || n.cfg.OpenFile == nil {
		return sent, nil
	}
	file, err := n.cfg.OpenFile(ctx, sent.Session, *sent.Artifact)
	if reason, final := errors.AsType[*tools.Error](err); final {
		return sent.WithNote(fmt.Sprintf("the file %s cannot be sent: %s", channel.FileName(sent.Artifact.ID), strings.ReplaceAll(reason.Code, "_", " "))), nil
	}
	if err != nil {
		return sent, fmt.Errorf("open the file of a notification: %w", err)
	}
	limit, note := int64(-1), fmt.Sprintf("file %s, %d bytes", file.Name, file.Size)
	if files, ok := to.(channel.FileChannel); ok {
		limit = files.MaxFile()
		note += fmt.Sprintf(", more than the %d MiB that can be sent here", limit>>20)
	}
	if file.Size <= limit {
		sent.File = file
		return sent, nil
	}
	return sent.WithNote(note + ": " + file.Command), file.Close()
}
