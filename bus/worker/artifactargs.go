package worker

import (
	"context"

	"github.com/stevedore-bus/stevedore/tools"
)

// withArtifacts returns the call of an attempt with the contents of artifacts in place of
// arguments {"$artifact":"ID"}, if its tool accepts that. The attempt keeps the
// arguments of the client, which its digest identifies.
func (w *Worker) withArtifacts(ctx context.Context, a *attempt) (call tools.Call, err error) {
	call = a.call
	if w.cfg.Reader == nil || !a.def.AcceptsArtifacts {
		return call, nil
	}
	err = w.withStoreRetry(ctx, func() (err error) {
		call.Args, err = w.cfg.Reader.Expand(ctx, a.key.session, a.def.Parameters, a.call.Args)
		return err
	})
	return call, err
}
