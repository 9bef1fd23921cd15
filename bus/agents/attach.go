package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// attachTimeout is how long a file may take; other messages wait meanwhile.
const attachTimeout = 2 * time.Minute

// attach makes the files of a message artifacts of its session. Their ids follow from that of
// the message, so a message that arrives again changes nothing. refused tells the agent
// which files it does not get, and why.
func (in *Inbox) attach(ctx context.Context, session string, m channel.Incoming) (ids []string, refused string, err error) {
	for i, file := range m.Files {
		call := tools.Call{ID: fmt.Sprintf("message-%s-file-%d", m.ID, i+1), Session: session, Tool: offload.ToolUpload, Action: file.Name}
		rec, err := in.store(ctx, call, file)
		if _, final := consume.Rejected(err); final || errors.Is(err, offload.ErrQuota) {
			in.log.Warn().Err(err).Str("channel", in.channel).Str("session", tools.TokenOf(session)).Msg("cannot take the file of a message")
			refused += fmt.Sprintf("(The user sent the file %q, which you cannot see: %v.)\n", tools.Excerpt(tools.OneLine(file.Name), 200), err)
			continue
		}
		if err != nil {
			return nil, "", err
		}
		ids = append(ids, rec.ID)
	}
	return ids, refused, nil
}

// store makes a file an artifact.
func (in *Inbox) store(ctx context.Context, call tools.Call, file channel.Attachment) (offload.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	data, err := file.Read(ctx)
	if err != nil {
		return offload.Record{}, err
	}
	return in.files.Attach(ctx, call, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
}

// hear puts the text of a voice message into m, or a sentence that says why there is none.
func (in *Inbox) hear(ctx context.Context, m channel.Incoming) channel.Incoming {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	var text string
	err := errors.New("the operator has not set up a transcription")
	if in.Transcriber != nil {
		text, err = in.Transcriber.Text(ctx, *m.Voice)
	}
	if err != nil {
		in.log.Warn().Err(err).Str("channel", in.channel).Msg("cannot transcribe a voice message")
		m.Context = strings.TrimSpace(m.Context + fmt.Sprintf("\n\n(The user sent a voice message, which you cannot hear: %v.)",
			tools.Excerpt(tools.OneLine(err.Error()), 200)))
		return m
	}
	m.Text = strings.TrimSpace(m.Text + "\n\n" + text)
	return m
}
