// Package provider connects the agent loop to language models.
//
// Open returns the provider that a spec string names. Anthropic and OpenAI speak
// HTTP through one client, which sends requests (client.go), retries failures
// (retry.go) and classifies errors (httperror.go). Script replays the turns of a
// file, for demos and tests without an API key.
//
// To add a provider, write a type with the method Complete of agent.Provider in
// its own file, add its name to Open, and add it to the tables of
// provider_test.go, which check its errors and retries.
package provider
