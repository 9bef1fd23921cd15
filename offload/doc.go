// Package offload replaces a long tool result by a short reference and reads the
// result back piece by piece.
//
// An Offloader decides which results are too long for a prompt, stores each as an
// artifact and returns the reference. A Reader returns pages, lines, matches and jq
// results of artifacts, also as tools for a model. A Store contains the artifacts:
// see the packages disk, object and mem.
//
//	store := mem.New(offload.StoreConfig{})
//	offloader := offload.NewOffloader(store, offload.Config{})
//	result, err := offloader.Result(ctx, call, tools.Definition{}, tools.NewToolResult(text))
//	modelTools := offload.NewReader(store, offload.ReaderConfig{}).Tools() // prompt: result.ForLLM
//
// A new Store uses the package record and must pass the suite in storetest;
// the example of record is a whole one.
package offload
