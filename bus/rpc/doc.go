// Package rpc answers requests of clients in any language, and contains the client
// for Go. Clients submit a call and wait for its result, read artifacts, list, get and
// cancel tasks, manage cron jobs and list tools.
//
// A client, of which any number may run:
//
//	b, err := bus.Connect(ctx, bus.Config{Server: url})
//	event, err := rpc.Submit(ctx, b, bus.DefaultQueue, tools.Call{Session: "s1", Tool: "list_dir", Args: json.RawMessage(`{"path":"."}`)})
//
// Its subjects are below <prefix>.rpc, which no stream captures: the server would
// answer a captured request with a publish acknowledgement.
package rpc
