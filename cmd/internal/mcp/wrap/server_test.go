package wrap

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

func bigText(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "this is é \"line\" %d\n", i)
	}
	return b.String()
}

// outputSchemas are the schemas of tools with structured content.
var outputSchemas = map[string]string{
	"open":    `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object"}}},"required":["rows"]}`,
	"closed":  `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"kind":{"enum":["a"]},"id":{"type":"integer"},"name":{"type":"string"}},"required":["kind","id","name"],"additionalProperties":false}}},"required":["rows"],"additionalProperties":false}`,
	"text":    `{"type":"object","properties":{"content":{"type":"string"}},"required":["content"],"additionalProperties":false}`,
	"mixed":   `{"type":"object"}`,
	"numbers": `{"type":"object","properties":{"values":{"type":"array","items":{"type":"number"}}},"required":["values"],"additionalProperties":false}`,
	"list":    `{"type":"array","items":{"type":"object","required":["kind","id","name"]}}`, // revision 2026-07-28 has more than objects
	"string":  `{"type":"string"}`,
	"all":     `{"type":"object","properties":{"values":{"type":"array","minItems":5000}},"required":["values"],"additionalProperties":false}`,
}

func validates(schema string, v any) error {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		return err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	return r.Validate(v)
}

func structured(name string, n int) any {
	switch name {
	case "list":
		return structured("open", n).(map[string]any)["rows"]
	case "string":
		return bigText(n)
	case "text":
		return map[string]any{"content": bigText(n)}
	case "mixed": // the text has more bytes than the whole has characters
		return map[string]any{"text": strings.Repeat("漢字かな", 5*n), "rows": structured("open", n).(map[string]any)["rows"]}
	case "numbers", "all":
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i) + 1.0/3
		}
		return map[string]any{"values": values}
	}
	rows := make([]any, n)
	for i := range rows {
		rows[i] = map[string]any{"kind": "a", "id": i, "name": fmt.Sprint("row number ", i)}
	}
	return map[string]any{"rows": rows}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// serve is a server in a role.
func serve(role string) {
	switch role {
	case "sdk":
		serveSDK()
	default:
		serveRaw(role)
	}
}

func serveSDK() { _ = sdkServer().Run(context.Background(), &mcp.StdioTransport{}) }

func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	object := &jsonschema.Schema{Type: "object"}
	add := func(tool *mcp.Tool, f func(context.Context, *mcp.CallToolRequest, map[string]any) *mcp.CallToolResult) {
		tool.InputSchema = object
		s.AddTool(tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args := map[string]any{}
			_ = json.Unmarshal(r.Params.Arguments, &args)
			return f(ctx, r, args), nil
		})
	}
	number := func(args map[string]any, key string) int { n, _ := args[key].(float64); return int(n) }
	add(&mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, args map[string]any) *mcp.CallToolResult {
		return text(fmt.Sprint(args["text"]))
	})
	add(&mcp.Tool{Name: "grep_knowledge"}, func(context.Context, *mcp.CallToolRequest, map[string]any) *mcp.CallToolResult {
		return text("the server's own")
	})
	add(&mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest, _ map[string]any) *mcp.CallToolResult {
		got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "sure?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"answer": map[string]any{"type": "string"}}}})
		if err != nil {
			return text(err.Error())
		}
		return text(fmt.Sprint(got.Action, " ", got.Content["answer"]))
	})
	add(&mcp.Tool{Name: "count"}, func(ctx context.Context, r *mcp.CallToolRequest, _ map[string]any) *mcp.CallToolResult {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		return text("counted")
	})
	add(&mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ map[string]any) *mcp.CallToolResult {
		_ = count("waiting")
		<-ctx.Done()
		_ = count("cancelled")
		return text("cancelled")
	})
	add(&mcp.Tool{Name: "slow"}, func(_ context.Context, _ *mcp.CallToolRequest, args map[string]any) *mcp.CallToolResult {
		for {
			if _, err := os.Stat("go"); err == nil {
				res := text(bigText(number(args, "lines")))
				res.IsError = args["fail"] == true
				return res
			}
			time.Sleep(time.Millisecond)
		}
	})
	add(&mcp.Tool{Name: "grow"}, func(context.Context, *mcp.CallToolRequest, map[string]any) *mcp.CallToolResult {
		s.AddTool(&mcp.Tool{Name: "grown" + rand.Text(), InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("grown"), nil })
		return text("ok")
	})
	add(&mcp.Tool{Name: "big"}, func(_ context.Context, _ *mcp.CallToolRequest, args map[string]any) *mcp.CallToolResult {
		return text(bigText(number(args, "lines")))
	})
	add(&mcp.Tool{Name: "media"}, func(context.Context, *mcp.CallToolRequest, map[string]any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ImageContent{Data: make([]byte, 100_000), MIMEType: "image/png"},
			&mcp.TextContent{Text: bigText(3000)},
			&mcp.AudioContent{Data: []byte("sound"), MIMEType: "audio/wav"},
		}}
	})
	add(&mcp.Tool{Name: "picture"}, func(context.Context, *mcp.CallToolRequest, map[string]any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "The page:"},
			&mcp.ImageContent{Data: wideImage(), MIMEType: "image/png", Annotations: &mcp.Annotations{Priority: 1}},
		}}
	})
	add(&mcp.Tool{Name: "blocks"}, func(context.Context, *mcp.CallToolRequest, map[string]any) *mcp.CallToolResult {
		res := &mcp.CallToolResult{}
		for i := range 500 {
			res.Content = append(res.Content, &mcp.TextContent{Text: fmt.Sprintf("block %d %s", i, strings.Repeat("x", 200))})
		}
		return res
	})
	for name, schema := range outputSchemas {
		add(&mcp.Tool{Name: name, OutputSchema: json.RawMessage(schema)}, func(_ context.Context, _ *mcp.CallToolRequest, args map[string]any) *mcp.CallToolResult {
			v := structured(name, number(args, "n"))
			data, _ := json.Marshal(v)
			res := text(string(data))
			if name == "text" {
				res = text(bigText(number(args, "n")))
			}
			res.StructuredContent = v
			return res
		})
	}
	for uri, c := range map[string]*mcp.ResourceContents{
		"test://small": {Text: "small"}, "test://text": {Text: bigText(20_000), MIMEType: "text/markdown"},
		"test://blob": {Blob: []byte(strings.Repeat("\x00\x01\xff", 200_000)), MIMEType: "application/octet-stream"},
	} {
		s.AddResource(&mcp.Resource{URI: uri, Name: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			c := *c
			c.URI = uri
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&c}}, nil
		})
	}
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "prompt"}}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "big"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "read this:"}}, {Role: "user", Content: &mcp.TextContent{Text: bigText(20_000)}},
		}}, nil
	})
	return s
}

// serveRaw is a server that misbehaves.
func serveRaw(role string) {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	say := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		out.Flush()
	}
	if role == "silent exit" {
		fmt.Fprintln(os.Stderr, "cannot find the module")
		os.Exit(3)
	}
	var asked json.RawMessage
	rows := make([]string, 3000)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"kind":"a","id":%d,"name":"row"}`, i)
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if role == "stubborn" {
				time.Sleep(time.Hour)
			}
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name, URI, Level string }
			Result struct{ Action string }
			Error  struct{ Message string }
		}
		if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
			continue
		}
		if m.Method == "" { // the answer to an elicitation
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s%s"}]}}`, asked, m.Result.Action, m.Error.Message)
			continue
		}
		if m.Params.Name == "ask" {
			asked = m.ID
			say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}`)
			continue
		}
		if m.Params.Name == "ask without end" {
			asked = m.ID
			for i := range maxFromServer + 1 {
				say(`{"jsonrpc":"2.0","id":"question %d","method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}`, i)
			}
			continue
		}
		switch m.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}}`, m.ID)
		case "tools/list":
			extra := ""
			if _, err := os.Stat("second"); err == nil && role == "changing" {
				extra = `,{"name":"new","inputSchema":{"type":"object"}}`
			}
			if role == "many" {
				for i := range 200 {
					extra += fmt.Sprintf(`,{"name":"tool%d","inputSchema":{"type":"object"}}`, i)
				}
			}
			if role == "tasks" {
				extra = `,{"name":"task","inputSchema":{"type":"object"},"outputSchema":` + outputSchemas["closed"] + `}`
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"once","inputSchema":{"type":"object"}}%s]}}`, m.ID, extra)
		case "tools/call":
			callRaw(role, m.Params.Name, string(m.ID), say)
		case "tasks/get":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"taskId":"t1","status":"completed","result":{"content":[],"structuredContent":{"rows":[%s]}}}}`, m.ID, strings.Join(rows, ","))
		case "acme/act":
			count("acts")
			os.Exit(1)
		case "server/discover":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		default:
			_ = count(strings.ReplaceAll(m.Method, "/", " ") + " " + m.Params.URI + m.Params.Level) // the file is there after the first one
			say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		}
	}
}

func callRaw(role, tool, id string, say func(string, ...any)) {
	count("calls of " + tool)
	switch tool {
	case "safe", "once": // the first call kills the server
		if err := count("crashes"); role == "crashing" && err == nil {
			fmt.Fprintln(os.Stderr, "segmentation fault")
			os.Exit(139)
		}
	case "poison":
		os.Exit(1)
	case "task":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"t1","status":"working"}}`, id)
		return
	case "deaf": // writes much and reads nothing meanwhile
		for i := range 20_000 {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":%d,"message":"%s"}}`, i, strings.Repeat("x", 100))
			if i == 0 {
				time.Sleep(500 * time.Millisecond)
			}
		}
	case "asleep": // reads nothing until it is told
		for {
			if _, err := os.Stat("awake"); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	case "big":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, strings.Repeat("0123456789abcde ", 50_000))
		return
	case "too large":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, strings.Repeat("0123456789abcde ", wire.MaxMessage/16))
		return
	case "deep":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"x":%s%s}}`, id, strings.Repeat("[", 20_000), strings.Repeat("]", 20_000))
		return
	case "hang":
		time.Sleep(time.Hour)
	case "flood":
		for i := range 50_000 {
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}`, i)
		}
		say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case "garbage":
		say("Listening on port 3000")
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"cut`, id)
		say(`[1,2`)
		say(`{"jsonrpc":"2.0","id":999,"result":{}}`)
		say(`{"jsonrpc":"2.0","id":{},"result":{}}`)
		say("%s", strings.Repeat("[", 200_000))
		say("\x00\xff\xfe")
	}
	say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s done"}]}}`, id, tool)
}

// count creates a file, and fails if it exists.
func count(name string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		err = errors.New("not the first time")
	}
	_, _ = f.WriteString("x")
	return err
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}
