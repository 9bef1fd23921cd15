// Package task says where a call is: it shows calls as tasks, and owns what is stored of
// them beside their messages.
//
// At each moment of its life, a call is in at least one of these places. S is the token of
// its session and C that of its id.
//
//	what            where it is stored           who writes it              who removes it, when
//	the call        stream CALLS, subject        the client; for a parked   workers, up to the first call
//	                call.<queue>.<tool>.S.C      call, a worker again       that has not ended (bus/consume/trim.go)
//	a delivery      the memory of one worker;    the server                 the worker acknowledges it; if it
//	                the server keeps its lease                              dies, the lease ends
//	the claim of a  stream RESULTS, subject      the worker that starts     the limits of the stream; a retry
//	once-only call  claim.S.C                    it; the first one wins     of its dead letter
//	the record      bucket tasks, key call.S.C   workers and clients, by    7 days after the last change, but
//	                (Record)                     compare-and-set            not while the call is parked
//	the result      stream RESULTS, subject      the worker that ran it;    the limits of the stream
//	                result.S.C                   the first one wins         (bus/retention); a retry
//	the completion  the same stream, subject     the worker in which the    the same
//	                completion.S.C               async tool ended
//	the report      the same stream, subject     who stored the result, if  the limits of the stream; a report
//	                report.S.C                   it has a text for a user   of another result of the call
//	a dead letter   stream DEAD, subject         the worker that gave up    30 days; a retry
//	                dead.call.<tool>
//
// Most calls have a message and a result, and no record. The record exists if a call
//
//   - is parked: it waits, perhaps for days, for a person, the provider of a model or
//     another call. Parked is then set, and the message in CALLS is acknowledged. When
//     the wait is over, a worker publishes the call again and then clears Parked.
//   - was parked: Parks counts how often. So a delivery that is older than the last wait
//     is known, and a reader knows that a call which it finds nowhere has moved.
//   - waited for an approval: Asked says since when. Answer has the yes or no of a person. The
//     first one counts.
//   - was started more than once: Starts counts it. Stopped says that the first start was
//     no attempt.
//   - was started before the consumer delivered it, because its session had its turn
//     (bus/consume/turns.go): Ahead. Without that delivery, its message is as that of a queued call.
//   - was cancelled: Cancelled. Each worker follows all records (Follower), so none
//     starts it. The canceller also publishes the result "cancelled".
//   - is the message of a user that stops others: Stops.
//
// The bucket also has the announcement of workers outside of the server's process (admin.Announce), and
// of chats what was delivered, their drafts (bus/notify) and how far they were read (bus/agents).
//
// Arguments that are larger than half a message are in an artifact of the session while
// the call is parked (Parked.ArgsIn); all other steps have them in the message.
//
// A step that moves a call writes the new place before it leaves the old one, so a crash in
// between leaves it in both, and the later step wins:
//
//	queued   CALLS                     published, not delivered yet
//	running  CALLS, a delivery         plus the claim of a once-only call
//	parked   CALLS, the record         until the acknowledgement, then only the record
//	resumed  the record, CALLS         until Parked is cleared, then only CALLS
//	async    CALLS, the result "async" and a delivery, until the completion
//	ended    CALLS, the result         until the acknowledgement, then only the result
//	dead     the dead letter, CALLS    then the letter and a result that names it
//
// So a reader that looks at CALLS, then at the record, then at the result finds every call
// (Get). Get and List ask the workers only for what runs, and in which state.
package task
