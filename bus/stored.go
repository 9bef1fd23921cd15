package bus

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// idHeader has the id of a message that was published again: that of the first one.
const idHeader = "Stevedore-Id"

// OrderHeader has, in a call that waited elsewhere and was published again, the sequence with
// which it was accepted.
const OrderHeader = "Stevedore-Order"

// ArgsHeader names, in a call that waited elsewhere and was published again, the artifact that
// has its arguments, if they are too large for a record of the wait.
const ArgsHeader = "Stevedore-Parked-Args"

// FreshHeader marks a call whose id its publisher made for it. So no worker needs to find out
// whether an earlier call with the id has ended. A publish that is repeated has no such header.
const FreshHeader = "Stevedore-Fresh"

// PriorityHeader has the priority of a call. A call with another one, or none, has the normal
// priority. If a queue has a backlog, a session gets eight calls of a priority for one of the
// next lower one.
const (
	PriorityHeader = "Stevedore-Priority"
	PriorityHigh   = "high"
	PriorityLow    = "low"
)

// OnceHeader and AsideHeader mark notifications that bus/notify put into the outbox.
//
// The ID of one with OnceHeader comes from the event, so a second notification with the same ID is a copy. The
// stream's own deduplication does not find a copy if the event is routed again after more than 10 minutes or after
// a restart of the server. Clients may use an ID twice on purpose.
//
// A console shows one with AsideHeader only because it shows everything. It belongs to no conversation of its user.
const (
	OnceHeader  = "Stevedore-Once"
	AsideHeader = "Stevedore-Aside"
)

// maxKept is longer than each value that our programs write. Any client may write others.
const maxKept = 100

// KeptHeader returns what a message that is published again keeps of its header.
func KeptHeader(get func(name string) string) nats.Header {
	kept := nats.Header{}
	for _, name := range []string{PriorityHeader, OnceHeader, AsideHeader, "traceparent"} {
		if value := get(name); value != "" && len(value) < maxKept {
			kept.Set(name, value)
		}
	}
	return kept
}

// maxID is the longest accepted id, in bytes. Ids are copied into records and headers, so they
// must be short.
const maxID = 1024

// Stored is a message in its stream.
type Stored struct {
	Subject  string
	Sequence uint64
	At       time.Time // when it was stored
	Header   nats.Header
	Body     []byte
}

func storedOf(m jsapi.Message) Stored { return Stored{m.Subject, m.Sequence, m.Time, m.Header, m.Data} }

// ID identifies the message over all deliveries and republishes: the publisher's
// Nats-Msg-Id, or an id from the stream sequence.
func (m Stored) ID() string {
	for _, name := range []string{idHeader, jetstream.MsgIDHeader} {
		if id := m.Header.Get(name); id != "" && len(id) <= maxID {
			return id
		}
	}
	// A new stream starts again with sequence 1, so the id includes the time.
	return "seq-" + strconv.FormatUint(m.Sequence, 10) + "-" + strconv.FormatInt(m.At.UnixNano(), 16)
}

// Order orders calls as they were accepted, over all republishes of calls that waited.
func (m Stored) Order() uint64 {
	if order, err := strconv.ParseUint(m.Header.Get(OrderHeader), 10, 64); err == nil && order < m.Sequence {
		return order
	}
	return m.Sequence
}

// Republished reports whether Bus.Republish published the message.
func (m Stored) Republished() bool { return m.Header.Get(idHeader) != "" }
