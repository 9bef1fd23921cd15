package offload_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// Ask questions about stored results with jq and SQL. A model does the same with Reader.Tools.
func ExampleReader() {
	ctx := context.Background()
	store := mem.New(offload.StoreConfig{})
	offloader := offload.NewOffloader(store, offload.Config{})
	reader := offload.NewReader(store, offload.ReaderConfig{SQL: sqlite.Engine{}})
	always := true
	for id, rows := range map[string]any{
		"ships": []map[string]any{{"name": "Ada", "port": 1}, {"name": "Bea", "port": 2}, {"name": "Cleo", "port": 2}},
		"ports": []map[string]any{{"id": 1, "port": "Cuxhaven"}, {"id": 2, "port": "Emden"}},
	} {
		text, err := json.Marshal(rows)
		check(err)
		call := tools.Call{ID: id, Session: "s1", Tool: "list", Offload: &always}
		_, err = offloader.Result(ctx, call, tools.Definition{}, tools.NewToolResult(string(text)))
		check(err)
	}
	names, err := reader.JQ(ctx, "s1", "ships", offload.JQQuery{Query: ".[].name"})
	check(err)
	fmt.Println(names.Text())
	joined, err := reader.SQL(ctx, "s1", offload.SQLQuery{SQL: "SELECT p.port, count(*) AS ships FROM ships s JOIN ports p ON p.id = s.port GROUP BY 1 ORDER BY 1"})
	check(err)
	fmt.Println(joined.Text())
	// Output:
	// Found 3 result(s) for query '.[].name' in knowledge#ships
	//
	// "Ada"
	// "Bea"
	// "Cleo"
	// Found 2 row(s):
	//
	// port|ships
	// Cuxhaven|1
	// Emden|2
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
