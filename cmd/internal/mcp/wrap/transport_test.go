package wrap

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

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
