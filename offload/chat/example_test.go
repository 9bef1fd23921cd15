package chat_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/chat"
)

func ExampleOffloadHistory() {
	dir, err := os.MkdirTemp("", "chat-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	messages, err := chat.ParseHistory([]byte(`[
		{"role": "user", "content": "What is in the log?"},
		{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read_log", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "` + strings.Repeat("a line; ", 100) + `"}]}
	]`))
	if err != nil {
		panic(err)
	}
	light, err := chat.OffloadHistory(context.Background(), messages, dir, chat.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(light.OffloadedCount, "offloaded,", light.FreedChars, "characters freed")
	fmt.Println(light.Messages[2])
	// Output:
	// 1 offloaded, 800 characters freed
	// {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"[Content offloaded to: ./tool-result-toolu_1.md]"}]}
}
