package agents

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// sentFiles is a channel that takes files of 20 bytes at most.
type sentFiles chan string

func (c sentFiles) MaxFile() int64 { return 20 }

func (c sentFiles) Send(_ context.Context, n channel.Notification) error {
	sent := n.Text + "|" + n.Note
	if n.File != nil {
		data, err := io.ReadAll(io.NewSectionReader(n.File.Content, 0, n.File.Size))
		if err != nil {
			return err
		}
		sent += "|" + n.File.Name + "|" + string(data)
	}
	c <- sent
	return nil
}

// The tool message sends artifacts of its session and of its sub-agents. The user learns in one
// sentence why a file does not come, and no publisher gets an artifact that it cannot read.
func TestMessagesSendFiles(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var later atomic.Int64 // than now
	store := mem.New(offload.StoreConfig{TTL: time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	reader := offload.NewReader(store, offload.ReaderConfig{SubSessions: func(_ context.Context, session string) ([]string, error) {
		if session == "s" {
			return []string{"child"}, nil
		}
		return nil, nil
	}})
	put := func(session, id, name, content string) channel.Artifact {
		t.Helper()
		call := tools.Call{ID: id, Session: session, Tool: offload.ToolUpload, Action: name}
		rec, err := offload.NewOffloader(store, offload.Config{}).Attach(t.Context(), call, io.NewSectionReader(strings.NewReader(content), 0, int64(len(content))))
		if err != nil {
			t.Fatal(err)
		}
		return channel.Artifact{ID: rec.ID, Digest: rec.Digest}
	}
	put("s", "mine", "../a\r\n\u202E\"b.txt", "my text")
	put("child", "childs", "", `{"of":"child"}`)
	put("s", "large", "large.txt", strings.Repeat("x", 21))
	secret := put("other", "secret", "secret.txt", "secret")

	files, plain := make(sentFiles, 1), filepath.Join(t.TempDir(), "notes.jsonl")
	n, err := notify.New(b, notify.Config{
		Channels: map[string]channel.Channel{"files": files, "plain": channel.NewFile(plain)}, Default: "files", Log: bustest.Log(t),
		OpenFile: FileOpener(reader, func(session, id string) string { return "get " + session + " " + id }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	sender := Sender{Notifier: n, Reader: reader}
	send := func(to, artifact string) error {
		_, err := sender.Send(t.Context(), builtin.Message{Key: to + artifact, Session: "s", Call: "c", Channel: to, Text: "text", Artifact: artifact})
		return err
	}
	expect := func(what, want string) {
		t.Helper()
		select {
		case got := <-files:
			if got != want {
				t.Errorf("%s: the user got %q, want %q", what, got, want)
			}
		case <-time.After(bustest.Timeout):
			t.Fatalf("%s: nothing came", what)
		}
	}
	for artifact, want := range map[string]string{
		"mine":   "text||_a _b.txt|my text",
		"childs": `text||childs.json|{"of":"child"}`,
		"large":  "text|file large.txt, 21 bytes, more than the 0 MiB that can be sent here: get s large",
	} {
		if err := send("files", artifact); err != nil {
			t.Fatal(err)
		}
		expect(artifact, want)
	}
	for _, artifact := range []string{"secret", "none", "../other/secret", strings.Repeat("x", 1000)} {
		if err := send("files", artifact); tools.CodeOf(err) != tools.CodeNotFound {
			t.Errorf("%.40s: %v", artifact, err)
		}
	}

	// Notifications of any publisher.
	for what, published := range map[string]channel.Notification{
		"wrong digest":  {ID: "p1", Text: "x", Session: "other", Artifact: &channel.Artifact{ID: "secret", Digest: "sha256:0"}},
		"no digest":     {ID: "p2", Text: "x", Session: "other", Artifact: &channel.Artifact{ID: "secret"}},
		"other session": {ID: "p3", Text: "x", Session: "s", Artifact: &secret},
		"no session":    {ID: "p4", Text: "x", Artifact: &channel.Artifact{ID: "secret\x1b[2J/../"}},
	} {
		if _, err := n.Send(t.Context(), published); err != nil {
			t.Fatal(err)
		}
		id := "secret"
		reason := "not found"
		if published.Session == "" {
			id, reason = "secret [2J_.._", "invalid arguments"
		}
		expect(what, "x|the file "+id+" cannot be sent: "+reason)
	}
	// It expires before it is sent.
	mine := put("s", "mine", "x", "my text")
	later.Store(int64(90 * time.Minute))
	if _, err := n.Send(t.Context(), channel.Notification{ID: "late", Text: "x", Session: "s", Artifact: &mine}); err != nil {
		t.Fatal(err)
	}
	expect("expired", "x|the file mine cannot be sent: expired")

	// A channel without files names the command.
	put("s", "again", "again.txt", "my text")
	if err := send("plain", "again"); err != nil {
		t.Fatal(err)
	}
	var line []byte
	bustest.WaitUntil(t, "the notification", func() bool {
		line, err = os.ReadFile(plain)
		return len(line) > 0
	})
	var shown channel.Notification
	if err := json.Unmarshal(line, &shown); err != nil || shown.Note != "file again.txt, 7 bytes: get s again" || shown.Artifact == nil || shown.Artifact.ID != "again" {
		t.Errorf("the file has %s: %v", line, err)
	}
}
