package agents

import (
	"context"
	"errors"
	"mime"

	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// FileOpener returns the function OpenFile of a notifier. command returns the command with which a
// user gets an artifact; its arguments are tokens.
func FileOpener(reader *offload.Reader, command func(session, id string) string) func(context.Context, string, channel.Artifact) (*channel.Document, error) {
	return func(ctx context.Context, session string, a channel.Artifact) (*channel.Document, error) {
		rec, content, err := reader.Open(ctx, session, a.ID)
		if err != nil {
			return nil, err
		}
		if rec.Digest != a.Digest {
			return nil, errors.Join(tools.Errorf(tools.CodeNotFound, "the artifact %.100q is another one", a.ID), content.Close())
		}
		return &channel.Document{Name: FileName(rec), Size: content.Size(), Content: content, Close: content.Close,
			Command: command(rec.Session, rec.ID)}, nil
	}
}

// FileName returns the name of the file that users get: that of a file of a user, and otherwise the id with the usual ending.
func FileName(rec offload.Record) string {
	if name := rec.Metadata["action_name"]; rec.Metadata["tool_name"] == offload.ToolUpload && name != "" {
		return channel.FileName(name)
	}
	ending := map[string]string{"TEXT": ".txt", "JSON": ".json"}[rec.Type]
	// A type that is malformed has no ending.
	if endings, _ := mime.ExtensionsByType(rec.MediaType); rec.Type == "BINARY" && len(endings) > 0 {
		ending = endings[0]
	}
	return channel.FileName(rec.ID + ending)
}
