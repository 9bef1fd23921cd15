package offload_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// Offload a tool result in your own agent loop, without a bus. Packages disk and object
// are other stores; the tools of Reader.Tools let the model read artifacts.
func Example() {
	ctx := context.Background()
	store := mem.New(offload.StoreConfig{})
	offloader := offload.NewOffloader(store, offload.Config{})
	reader := offload.NewReader(store, offload.ReaderConfig{})

	var log strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&log, "%d: request served\n", i)
	}
	log.WriteString("100000: out of memory\n")
	call := tools.Call{ID: "toolu_1", Session: "s1", Tool: "read_log"}
	short, err := offloader.Result(ctx, call, tools.Definition{}, tools.NewToolResult(log.String()))
	if err != nil {
		panic(err)
	}
	fmt.Println(short.Artifact.ID, short.Artifact.Lines, "lines,", len(short.ForLLM) < 3000)

	found, err := reader.Grep(ctx, call.Session, short.Artifact.ID, offload.GrepQuery{Pattern: "memory", ContextBefore: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(found.Text())
	_, err = reader.GetByLines(ctx, "another session", short.Artifact.ID, offload.LinesQuery{StartLine: 1, EndLine: 2})
	fmt.Println(tools.CodeOf(err))
	// Output:
	// toolu_1 100001 lines, true
	// Found 1 match(es) for pattern 'memory' in knowledge#toolu_1 (100001 total lines)
	//
	// 100000- 99999: request served
	// 100001: 100000: out of memory
	// not_found
}
