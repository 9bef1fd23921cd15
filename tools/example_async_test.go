package tools_test

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
)

// backup is a tool whose job goes on in the background. The model gets the first result now; the
// user and the conversation get the completion.
type backup struct{ *tools.FuncTool }

func newBackup() backup {
	return backup{tools.MustTool("backup", "Back up the harbour.", func(context.Context, tools.Call, struct{}) *tools.Result {
		return tools.NewToolResult("The backup has ended.")
	})}
}

func (b backup) ExecuteAsync(ctx context.Context, call tools.Call, done tools.AsyncCallback) *tools.Result {
	go func() { done(ctx, b.Execute(ctx, call)) }()
	return tools.AsyncResult("The backup has begun.")
}

func ExampleAsyncTool() {
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(newBackup()); err != nil {
		panic(err)
	}
	completion := make(chan *tools.Result)
	call := tools.Call{ID: "1", Session: "s1", Tool: "backup"}
	started := registry.Run(context.Background(), call, func(_ context.Context, r *tools.Result) { completion <- r })
	fmt.Println(started.Async, started.ForLLM)
	fmt.Println((<-completion).ForLLM)
	// Output:
	// true The backup has begun.
	// The backup has ended.
}
