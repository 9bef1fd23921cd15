package worker

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Step names a step of a call's way.
type Step string

const (
	StepDecode  Step = "decode"
	StepResume  Step = "resume"
	StepClaim   Step = "claim"
	StepRun     Step = "run"
	StepOffload Step = "offload"
	StepPublish Step = "publish"
	StepAck     Step = "ack"
)

// handle takes one call to its result; returning nil acknowledges it. It is
// steps 3 to 9 of the way: 1 is the client's publish, 2 the pull, and the bus
// holds the lease meanwhile.
//
// Whatever dies on the way, the call is delivered again, and recall finds how
// far it came.
func (w *Worker) handle(ctx context.Context, d *bus.Delivery) error {
	// 3. Bytes become a job, with ids that are safe. What has no meaning at all
	// is a dead letter; what is merely wrong gets an error result.
	w.cfg.OnStep(StepDecode)
	job, err := w.decode(d)
	if err != nil {
		return bus.Reject(bus.CodeUndecodable, err)
	}
	if job.invalid != nil {
		return w.answer(ctx, job, tools.Failure(job.invalid))
	}

	// 4. Delivered before? Then it may be answered already, be running still,
	// or have been started once and for all.
	if d.Again {
		w.cfg.OnStep(StepResume)
		if answered, err := w.recall(ctx, job); answered || err != nil {
			return err
		}
	}

	// 5. From here on this worker has it; for once-only tools, for good.
	w.cfg.OnStep(StepClaim)
	toolCtx, answered, err := w.claim(ctx, job)
	defer w.running.end(job)
	if answered || err != nil {
		return err
	}

	// 6. Run the tool. A crash here runs it again, unless it is once-only.
	w.cfg.OnStep(StepRun)
	recorded := w.recordLastChannel(ctx, job)
	res := w.run(toolCtx, job)
	recorded()
	if ctx.Err() != nil {
		_ = res.Close()
		return ctx.Err() // interrupted, so the result means nothing
	}

	// 7 to 9. Store what is big, publish what is light, acknowledge. A job that
	// goes on in the background is answered twice, here and when it ended; one
	// that was started again after a crash was answered here before.
	if !res.Async || res.IsError {
		return w.answer(ctx, job, res)
	}
	if !job.resultOut {
		if err := w.answer(ctx, job, res); err != nil {
			return err
		}
	}
	if job.completedElsewhere(w.registry) {
		return nil
	}
	if job.beaten { // a completion would stand beside a result that is final
		w.stopJob(job)
		return nil
	}
	return w.awaitCompletion(ctx, toolCtx, job)
}
