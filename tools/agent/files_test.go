package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// picture returns a PNG that hardly compresses.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	img, noise := image.NewGray(image.Rect(0, 0, width, height)), rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Set(i%width, i/width, color.Gray{Y: byte(noise.Uint32())})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The model sees the pictures of a user, as many as fit, and a reference to each other file.
func TestFilesOfTheUser(t *testing.T) {
	model := &recorder{Provider: parseScript(t, `{"text":"I see them."}`, `{"text":"Again."}`)}
	s := newStage(t)
	all, err := agent.Tools(agent.ToolsConfig{
		Models: map[string]agent.Provider{"m": model}, DefaultModel: "m", Runner: s.runner, Conversations: &s.log,
		Definitions: s.registry.Definitions, Files: offload.NewReader(s.store, offload.ReaderConfig{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.registry.Register(all...); err != nil {
		t.Fatal(err)
	}
	attach := func(session, id string, data []byte) {
		t.Helper()
		_, err := offload.NewOffloader(s.store, offload.Config{}).Attach(t.Context(), tools.Call{ID: id, Session: session, Tool: offload.ToolUpload, Action: id + ".file"},
			io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the message arrived twice
		attach("s", "small", picture(t, 300, 200))
	}
	attach("s", "first", picture(t, 550, 550))
	attach("s", "second", picture(t, 551, 551))
	attach("s", "table", []byte("name,port\nweb,80\n"))
	attach("other", "secret", []byte("a secret"))
	if e := s.call(t, "r", "agent", `{"prompt":"what is it?","files":["first","second","small","table"]}`); e.IsError || e.ForLLM != "I see them." {
		t.Fatalf("result %+v", e)
	}
	content := model.requests[0].Messages[0].Content
	if len(content) != 3 || content[0].Type != "image" || content[1].Type != "image" {
		t.Fatalf("the prompt has %d blocks, want two pictures and a text", len(content))
	}
	text := content[2].Text
	for _, want := range []string{"what is it?", `the picture "first.file", which you see above`, `the picture "small.file"`, "as the artifact 'second': ", "web,80"} {
		if !strings.Contains(text, want) {
			t.Errorf("the prompt has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, `the picture "second.file"`) {
		t.Errorf("the prompt says that the model sees a picture that does not fit:\n%s", text)
	}
	if n := model.requests[0].EstimateTokens(); n > 10_000 {
		t.Errorf("the request has an estimate of %d tokens, as if the pictures were text", n)
	}
	many := strings.TrimSuffix(strings.Repeat(`"table",`, 21), ",")
	for files, want := range map[string]string{`"secret"`: "no artifact", `"never"`: "no artifact", many: "at most 20"} {
		e := s.call(t, fmt.Sprintf("bad-%d", len(files)), "agent", `{"prompt":"x","files":[`+files+`]}`)
		if !e.IsError || !strings.Contains(e.ForLLM, want) {
			t.Errorf("files %.20s: %.300s, want %q", files, e.ForLLM, want)
		}
	}
}

// A run that another worker continues has its prompt and its tools in its log. It goes on although an artifact that the user sent has
// expired meanwhile, or a tool that the call names is not there yet, as that of an MCP server that starts.
func TestRunGoesOnWithoutWhatItBeganWith(t *testing.T) {
	for _, gone := range []string{"file", "tool"} {
		t.Run(gone, func(t *testing.T) {
			s := newStage(t, sayTool(t), newTool(t, "other", tools.Idempotent, func(context.Context, tools.Call, sayArgs) *tools.Result { return nil }))
			model := &recorder{Provider: parseScript(t, asks("say", `{"text":"hi"}`), `{"expect":["said hi"],"text":"done"}`)}
			all, err := agent.Tools(agent.ToolsConfig{
				Models: map[string]agent.Provider{"m": model}, DefaultModel: "m", Runner: s.runner, Conversations: &s.log, Definitions: s.registry.Definitions, Files: offload.NewReader(s.store, offload.ReaderConfig{}),
			})
			if err == nil {
				err = s.registry.Register(all...)
			}
			if err == nil {
				_, err = offload.NewOffloader(s.store, offload.Config{}).Attach(t.Context(), tools.Call{ID: "f", Session: "s"}, io.NewSectionReader(strings.NewReader("text"), 0, 4))
			}
			if err != nil {
				t.Fatal(err)
			}
			call := tools.Call{ID: "r", Session: "s", Tool: "agent", Args: json.RawMessage(`{"prompt":"go","files":["f"],"tools":["say","other"]}`)}
			ctx, cancel := context.WithCancel(t.Context())
			res := s.registry.Run(tracing.OnStep(ctx, func(step string) {
				if step == "log_turn" { // the worker stops
					cancel()
				}
			}), call, nil)
			if !res.IsError || len(s.entries(t, "s")) == 0 {
				t.Fatalf("the first attempt: %+v", res)
			}
			if gone == "tool" {
				_, err = s.registry.Replace([]string{"other"})
			} else {
				err = s.store.Delete(t.Context(), "s", "f")
			}
			if err != nil {
				t.Fatal(err)
			}
			if res := s.registry.Run(t.Context(), call, nil); res.IsError || res.ForLLM != "done" {
				t.Errorf("the second attempt: %+v", res)
			}
			if got := model.toolNames(1); !slices.Equal(got, []string{"say", "other"}) { // another worker may have it, or this one soon
				t.Errorf("the model sees %q", got)
			}
			call.ID = "another"
			if res := s.registry.Run(t.Context(), call, nil); !res.IsError {
				t.Errorf("another run: %+v", res)
			}
		})
	}
}
