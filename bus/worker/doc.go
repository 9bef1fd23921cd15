// Package worker runs tool calls: it turns each call into one stored result.
//
// A call takes nine steps. Worker.handle does steps 3 to 9.
//
//  1. Publish: a client publishes the call (bus/publish.go).
//  2. Pull: the worker pulls as many calls as it has free slots and extends the
//     lease of each call until step 9 (bus/consume/consume.go, lease.go). If calls wait for
//     long, sessions take turns (bus/consume/turns.go).
//  3. Decode: the worker decodes and checks the call (bus/task/delivered.go).
//  4. Resume: the worker asks where the call is (task.Locator), because an earlier delivery may
//     have got far, and waits while another worker runs it (resume.go). A call that needs an
//     approval is parked until a person has answered (park.go, bus/approvals).
//  5. Claim: the worker registers the execution (execution.go), and writes the claim of a
//     once-only call (resume.go).
//  6. Run: the worker runs the tool (run.go). If the tool continues in the
//     background, steps 7 and 8 happen twice (run.go). If the tool returns a pause,
//     the call is parked (park.go).
//  7. Offload: the worker stores large content and puts a reference to it into the
//     result (result.go, artifacts.go).
//  8. Publish the result: the server keeps the first result of a call (result.go). If it has
//     a text for a user, the worker then stores a report for the notifier.
//  9. Acknowledge: handle returns nil, and bus/consume acknowledges the call
//     (bus/consume/delivery.go).
//
// If the worker stops at any step, the server delivers the call again, and step 4
// continues it. A call that fails too often becomes a dead letter and gets a result
// that says so (attempts.go). Ticks of schedules become calls (tick.go).
//
// A program with a tool of its own, and with the server in its process:
//
//	server, err := embedded.Start(embedded.Config{Dir: dir}) // without it: bus.Config{Server: URL}
//	b, err := bus.Connect(ctx, server.ClientConfig(bus.Config{}))
//	_, err = admin.Provision(ctx, b, admin.Nothing) // creates the streams that are missing
//	registry := tools.NewRegistry(log)
//	err = registry.Register(tool) // tools.NewTool makes one of a function
//	store, err := object.Open(ctx, b.JetStream(), object.Config{})
//	w := worker.New(b, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{})
//	err = w.Run(ctx) // until ctx ends
//
// Other programs, and other goroutines, call it with rpc.Submit or in any language.
package worker
