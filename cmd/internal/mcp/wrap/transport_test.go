package wrap

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// A message that is too large or that is not JSON gets an answer, and the connection goes
// on. Close ends a read that waits.
func TestTransport(t *testing.T) {
	t.Parallel()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	c, err := Transport{NewStream(in, out, nil)}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(client, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"`+strings.Repeat("x", wire.MaxMessage)+"\"}\nno JSON\n")
		for _, kind := range []string{"method", "result"} { // a response has an id of ours
			io.WriteString(client, `{"jsonrpc":"2.0","id":6,"`+kind+`":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+"}\n")
		}
		io.WriteString(client, `{"jsonrpc":"1.0","id":8,"method":"x"}`+"\n"+`{"jsonrpc":"2.0","id":9,"method":"next"}`+"\n")
	}()
	type read struct {
		msg jsonrpc.Message
		err error
	}
	reads := make(chan read)
	go func() {
		for range 2 {
			msg, err := c.Read(t.Context())
			reads <- read{msg, err}
		}
	}()
	lines := bufio.NewReader(answers)
	for _, want := range []string{`"id":7,"error":{"code":-32600,"message":"a message of`, `"id":null,"error":{"code":-32700`, `"id":6,"error":{"code":-32700`, `"id":null,"error":{"code":-32700`, `"id":8,"error":{"code":-32600`} {
		line, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%q %v, want %q", line, err, want)
		}
	}
	if r := <-reads; r.err != nil || r.msg.(*jsonrpc.Request).Method != "next" {
		t.Errorf("%+v", r)
	}
	c.Close()
	if r := <-reads; !errors.Is(r.err, io.EOF) {
		t.Errorf("after Close: %v", r.err)
	}
}

// The SDK answers with the id that the client wrote, so that the link ends when all requests are answered.
func TestIDsOfTheSDK(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, waits, cancelled := mcp.NewServer(&mcp.Implementation{Name: "x"}, nil), make(chan bool), make(chan bool)
		for name, tool := range map[string]func(context.Context){
			"wait":  func(ctx context.Context) { close(waits); <-ctx.Done(); close(cancelled) },
			"after": func(context.Context) { <-cancelled },
		} {
			s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
				tool(ctx)
				return &mcp.CallToolResult{}, nil
			})
		}
		in, client := io.Pipe()
		say := func(line string) { io.WriteString(client, `{"jsonrpc":"2.0",`+line+"}\n") }
		ids := []string{"7", "-9007199254740993", "1732912345123456789", "12345678901234567890", "1.5", `"stevedore-number:{"`, `"a"`}
		go func() {
			say(`"id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)
			say(`"method":"notifications/initialized"`)
			for _, id := range ids {
				say(`"id":` + id + `,"method":"ping"`)
			}
			say(`"id":9007199254740995,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"progressToken":9007199254740997}}`)
			<-waits
			say(`"id":99,"method":"tools/call","params":{"name":"after","arguments":{}}`)
			say(`"method":"notifications/cancelled","params":{"requestId":9007199254740995}`)
			client.Close()
		}()
		var out strings.Builder
		began := time.Now()
		_ = s.Run(t.Context(), Transport{Draining(NewStream(in, &out, nil), time.Minute, func() {})}) // it ends with the link
		for _, id := range append(ids, "99") {
			if !strings.Contains(out.String(), `"id":`+id+`,"result"`) {
				t.Errorf("no answer to %s: %s", id, out.String())
			}
		}
		if !strings.Contains(out.String(), `"progressToken":9007199254740997`) {
			t.Errorf("no progress: %s", out.String())
		}
		if time.Since(began) > 0 {
			t.Errorf("it ended after %s", time.Since(began))
		}
	})
}
