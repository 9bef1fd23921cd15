package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// converse sends the messages that the user writes, one after the other, and shows the
// answers, until the input ends.
func (o promptOptions) converse(ctx context.Context, prompt *cli.Prompt, stdout, stderr io.Writer) error {
	stdout, stderr = prompt.Writer(stdout), prompt.Writer(stderr)
	b, err := o.Await(ctx, "agent", &o.call.Session, stderr)
	if err != nil {
		return err
	}
	defer b.Close()
	switch {
	case o.call.Session != "":
	case o.Connection.External(): // other people may use the bus
		o.call.Session = "chat-" + nuid.Next()
	default:
		o.call.Session = agents.ConsoleSession
	}
	fmt.Fprintf(stderr, "session %s\n", o.call.Session)
	if prompt.Interactive() {
		o.recall(ctx, b, prompt)
		cli.Note(stderr, `Enter sends, \ or Alt+Enter continues on the next line, Ctrl-C cancels the answer, Ctrl-D ends.`)
	}
	feed, stopFeed, err := startFeed(ctx, o, b, prompt, stderr)
	if err != nil {
		return err
	}
	defer stopFeed()
	failed := false
	for {
		message, err := prompt.Read(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if prompt.Interactive() {
				fmt.Fprintln(stdout)
			}
			if failed && !prompt.Interactive() {
				return cli.Exit(cli.ExitToolError, "")
			}
			return nil
		case errors.Is(err, cli.ErrInterrupted):
			continue
		case ctx.Err() != nil:
			return cli.Exit(cli.ExitPending, "interrupted")
		case err != nil:
			return err
		case feed.answer(ctx, message):
			continue
		}
		command, rest := agents.Command(message)
		switch command {
		case "":
		case "/quit", "/exit":
			return nil
		case "/new":
			o.args.Fresh = true
			if rest == "" {
				fmt.Fprintln(stderr, "The next message begins a new conversation.")
				continue
			}
		case "/stop":
			fmt.Fprintln(stderr, "Nothing is running. While the agent works, Ctrl-C stops it.")
			continue
		case "/help":
			fmt.Fprintln(stderr, agents.Help+"\n/quit ends the program.")
			continue
		default:
			fmt.Fprintln(stderr, agents.UnknownCommand(command))
			continue
		}
		message = rest
		ok, err := o.sayOnce(ctx, b, message, feed, stdout, stderr)
		if err != nil {
			return err
		}
		failed = failed || !ok
		o.args.Fresh = false
	}
}

// recall puts the earlier messages of the session into the history of the prompt.
func (o promptOptions) recall(ctx context.Context, b *bus.Bus, prompt *cli.Prompt) {
	entries, err := client.ReadConversation(ctx, b, &o.Connection, o.call.Session)
	if err != nil {
		return // most often the session is new; otherwise the first message reports it
	}
	for _, e := range entries {
		if e.Kind == agent.KindUser && e.Message != nil {
			prompt.Remember(agent.TextOf(e.Message.Content))
		}
	}
}

// sayOnce sends one message and shows the answer; ok is false if the run failed. Ctrl-C
// cancels the run; a second one stops waiting for it. The error ends the conversation.
func (o promptOptions) sayOnce(ctx context.Context, b *bus.Bus, message string, feed *feed, stdout, stderr io.Writer) (ok bool, err error) {
	o.args.Prompt, o.call.ID = message, "run-"+nuid.Next()
	o.call.Tool = agent.AgentTool
	if o.call.Args, err = bus.Encode(o.args); err != nil {
		return false, err
	}
	interrupts, release := cli.CatchInterrupts(ctx)
	defer release()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var (
		working     sync.WaitGroup
		cancelled   bool // when working has ended; so are the next two
		interrupted bool
		left        bool
	)
	press := func() bool {
		select {
		case <-interrupts:
			return true
		case <-waiting.Done():
			return false
		}
	}
	working.Go(func() {
		if interrupted = press(); !interrupted {
			return
		}
		cancelling := make(chan bool, 1)
		go func() { cancelling <- o.cancelRun(waiting, b, stderr) }()
		if left = press(); left {
			stop()
		}
		cancelled = <-cancelling
	})
	working.Go(func() { feed.answerDuring(waiting, interrupts) })
	view := &agentView{stdout: stdout, stderr: stderr, stream: true, styled: cli.ShowsStyles(stdout)}
	event, err := o.submit(waiting, b, view.add, stderr)
	stop()
	working.Wait()
	switch {
	case ctx.Err() != nil:
		view.endLine()
		return false, err
	case interrupted && (event.Outcome == tools.Cancelled || err != nil && cancelled):
		view.open = view.open || cli.IsTerminal(stdout) // it shows ^C
		view.note("(cancelled)")
		return true, nil
	case left && err != nil:
		view.open = view.open || cli.IsTerminal(stdout)
		view.note("(not cancelled: the run goes on; to wait for its answer: %s)", o.resume())
		return false, nil
	case errors.Is(err, bus.ErrUnreachable):
		return false, err
	case err != nil:
		view.note("stevedore: %v", err)
		return false, nil
	}
	if err := o.showAnswer(ctx, b, view, event); err != nil {
		return false, err
	}
	return !event.IsError, nil
}

// cancelTimeout is how long the cancellation of a run may take.
const cancelTimeout = 10 * time.Second

// cancelRun cancels the run of the call, and reports whether that is certain.
func (o promptOptions) cancelRun(ctx context.Context, b *bus.Bus, stderr io.Writer) bool {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	o.Session = o.call.Session
	_, err := client.Ask(ctx, &o.Options, b, rpc.CancelTask, rpc.TaskRequest{ID: o.call.IDToken()})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(stderr, "stevedore: cannot cancel the run: %v; press Ctrl-C again to stop waiting for it\n", err)
	}
	return err == nil
}
