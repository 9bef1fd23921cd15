package simulate

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// retryLetters retries all dead letters again and again, as "stevedore dead retry --all" does. Some of its programs
// are cut off in between. A letter that another try has retried, so that its call has its result, is removed.
func (s *simulation) retryLetters() {
	l := s.newLink()
	b := s.connect(l)
	defer func() { l.set(whole); b.Close() }()
	for n := 0; ; n++ {
		select {
		case <-s.leaving:
			return
		case <-time.After(45 * time.Second):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		page, _ := dead.ListPage(ctx, b, dead.Query{}) // the next turn asks again
		if n%2 == 0 {
			l.setAfter(1+n/2%8, "", down)
		}
		for _, letter := range page.Letters { // the answer to a retry may be lost
			if call, ok := s.client.SplitCall(letter.Subject); ok { // the message of a call that was parked has another id
				s.ledger.retry(call.ID)
			}
		}
		var ended []dead.Stored
		rpc.ChangeLetters(ctx, b, page.Letters, true, func(letter dead.Stored, err error) {
			if err == nil {
				s.letters++
			} else if s.hasEnded(ctx, letter.Subject) {
				ended = append(ended, letter)
			}
		})
		l.set(whole)
		rpc.ChangeLetters(ctx, s.client, ended, false, func(dead.Stored, error) {})
		cancel()
	}
}

// hasEnded reports whether the call of a subject has another result than that of its dead letter.
func (s *simulation) hasEnded(ctx context.Context, subject string) bool {
	call, ok := s.client.SplitCall(subject)
	results, err := s.records(ctx)
	if err != nil || !ok || call.Raw {
		return false
	}
	p := &promise{session: call.Session, id: call.ID}
	end, ok := read(ctx, results, "result", p)
	if ok && end.Outcome == "async" { // it was given up before its completion
		end, ok = read(ctx, results, "completion", p)
	}
	return ok && (end.Outcome != "failed" || end.Error.Code != "given_up") // a run may fail because others took it for abandoned
}
