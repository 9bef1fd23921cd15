package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is a setting of an existing stream or bucket that differs from what this
// version creates.
type Difference struct {
	Name    string `json:"name"`
	Setting string `json:"setting"`
	Have    string `json:"have"`
	Want    string `json:"want"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s, want %s", d.Name, d.Setting, d.Have, d.Want)
}

// Provisioned is the result of Provision.
type Provisioned struct {
	// Created lists the created streams and buckets, by name.
	Created []string
	// Differences lists the settings that differ.
	Differences []Difference
}

// Provision creates the streams and buckets that do not exist. It changes existing
// ones only if update is set; otherwise it returns the differences. A bucket has the
// name of its stream. If one of them has another format, the error is a *FormatError and
// nothing was changed. After another error, the result contains what was done before. The
// caller needs the permission to look up streams, and to create the missing ones.
func (b *Bus) Provision(ctx context.Context, update bool) (Provisioned, error) {
	var done Provisioned
	if err := b.checkStreamBytes(); err != nil {
		return done, err
	}
	if err := b.checkFormats(ctx, update); err != nil {
		return done, err
	}
	provision := func(want jetstream.StreamConfig, align func(have *jetstream.StreamConfig, want jetstream.StreamConfig) []Difference) error {
		created, diffs, err := b.provisionStream(ctx, want, align, update)
		if err != nil {
			return fmt.Errorf("provision stream %s: %w", want.Name, err)
		}
		if created {
			done.Created = append(done.Created, want.Name)
		}
		done.Differences = append(done.Differences, diffs...)
		return nil
	}
	for _, want := range b.limitedStreams() {
		if err := provision(want, align); err != nil {
			return done, err
		}
	}
	for _, want := range b.buckets() {
		if err := provision(want, alignBucket); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (b *Bus) provisionStream(ctx context.Context, want jetstream.StreamConfig, align func(have *jetstream.StreamConfig, want jetstream.StreamConfig) []Difference, update bool) (created bool, diffs []Difference, err error) {
	stream, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.createStream(ctx, want)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err == nil, nil, err
		}
		stream, err = b.js.Stream(ctx, want.Name) // another process created it
	}
	if err != nil {
		return false, nil, err
	}
	config := stream.CachedInfo().Config
	if b.cfg.Replicas <= 0 {
		want.Replicas = config.Replicas
	}
	b.keepLimits(&want, config)
	diffs = align(&config, want)
	if len(diffs) == 0 || !update {
		return false, diffs, nil
	}
	return false, diffs, b.withProvisionTimeout(ctx, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, config)
		return err
	})
}

// provisionTimeout is how long the server may take to create or change a stream or
// consumer. A cluster answers after the replicas have elected a leader. The first vote
// takes less than a second. If it fails, as it does on busy machines, the next one
// begins 4 to 9 s later.
const provisionTimeout = 30 * time.Second

// withProvisionTimeout calls f, which creates or changes a stream or consumer.
func (b *Bus) withProvisionTimeout(ctx context.Context, f func(context.Context) error) error {
	timeout := max(b.cfg.Timeout, provisionTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := f(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("the server did not answer within %s; are most servers of the cluster up? %w", timeout, err)
	}
	return err
}

// minMaxBytes is the smallest useful size of a stream.
const minMaxBytes = 16 << 20

// The error codes of the server for a lack of disk space (errors.json:
// JSStorageResourcesExceededErr, JSInsufficientResourcesErr).
const (
	errStorageExceeded   = 10047
	errResourcesExceeded = 10023
)

const (
	// errNoPeers is the error code of a cluster in which not enough servers are online
	// (errors.json: JSClusterNoPeersErrF).
	errNoPeers = 10005
	// peersTimeout is how long createStream waits for the servers of a cluster. The
	// servers of a cluster that starts learn of each other within some seconds.
	peersTimeout  = 15 * time.Second
	peersInterval = 250 * time.Millisecond
)

// createStream creates a stream. Without a configured size, the stream gets the
// default size, or less if the server does not have as much space.
func (b *Bus) createStream(ctx context.Context, want jetstream.StreamConfig) error {
	waitUntil := time.Now().Add(peersTimeout)
	var noPeers error
	for {
		err := b.withProvisionTimeout(ctx, func(ctx context.Context) error {
			_, err := b.js.CreateStream(ctx, want)
			return err
		})
		api, ok := errors.AsType[*jetstream.APIError](err)
		switch {
		case ok && api.ErrorCode == errNoPeers:
			noPeers = fmt.Errorf("%w: a stream with %d replicas needs as many servers with JetStream online", err, want.Replicas)
			select {
			case <-time.After(peersInterval):
			case <-ctx.Done():
			}
			if ctx.Err() != nil || time.Now().After(waitUntil) {
				return noPeers
			}
			continue
		case ctx.Err() != nil && noPeers != nil: // the caller gave up while the server was asked again
			return noPeers
		case !ok || api.ErrorCode != errStorageExceeded && api.ErrorCode != errResourcesExceeded:
			return err
		case want.MaxBytes <= 0: // it reserves no space
			return err
		case b.hasSize(want.Name) || want.MaxBytes/2 < minMaxBytes:
			return fmt.Errorf("%w: it reserves %d MiB; free space on the server's disk, or choose a smaller size with --max-bytes", err, want.MaxBytes>>20)
		}
		want.MaxBytes /= 2
	}
}

// align copies the settings that guarantees depend on from want to have, and returns
// the differences. The operator decides about all other settings.
func align(have *jetstream.StreamConfig, want jetstream.StreamConfig) []Difference {
	d := differences{name: want.Name}
	setting(&d, "subjects", &have.Subjects, want.Subjects)
	setting(&d, "retention", &have.Retention, want.Retention)
	setting(&d, "discard", &have.Discard, want.Discard)
	setting(&d, "discard_new_per_subject", &have.DiscardNewPerSubject, want.DiscardNewPerSubject)
	setting(&d, "max_msgs_per_subject", &have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	setting(&d, "max_age", &have.MaxAge, want.MaxAge)
	setting(&d, "max_bytes", &have.MaxBytes, want.MaxBytes)
	setting(&d, "num_replicas", &have.Replicas, want.Replicas)
	setting(&d, "duplicate_window", &have.Duplicates, want.Duplicates)
	setting(&d, "allow_direct", &have.AllowDirect, want.AllowDirect)
	republish(&d, &have.RePublish, want.RePublish)
	setting(&d, "allow_atomic", &have.AllowAtomicPublish, want.AllowAtomicPublish)
	setting(&d, "allow_msg_ttl", &have.AllowMsgTTL, want.AllowMsgTTL)
	setting(&d, "allow_msg_schedules", &have.AllowMsgSchedules, want.AllowMsgSchedules)
	return d.found
}

// alignBucket is align for a bucket. The operator decides about its size and age.
func alignBucket(have *jetstream.StreamConfig, want jetstream.StreamConfig) []Difference {
	d := differences{name: want.Name}
	setting(&d, "discard", &have.Discard, want.Discard)
	setting(&d, "num_replicas", &have.Replicas, want.Replicas)
	setting(&d, "allow_direct", &have.AllowDirect, want.AllowDirect)
	setting(&d, "allow_msg_ttl", &have.AllowMsgTTL, want.AllowMsgTTL)
	setting(&d, "subject_delete_marker_ttl", &have.SubjectDeleteMarkerTTL, want.SubjectDeleteMarkerTTL)
	return d.found
}

type differences struct {
	name  string
	found []Difference
}

func setting[T any](d *differences, name string, have *T, want T) {
	if h, w := fmt.Sprint(*have), fmt.Sprint(want); h != w {
		d.found = append(d.found, Difference{Name: d.name, Setting: name, Have: h, Want: w})
		*have = want
	}
}

// republish is setting for a pointer.
func republish(d *differences, have **jetstream.RePublish, want *jetstream.RePublish) {
	none := jetstream.RePublish{}
	h, w := cmp.Or(*have, &none), cmp.Or(want, &none)
	if *h != *w {
		setting(d, "republish", h, *w)
		*have = want
	}
}

// ProvisionConsumers creates the consumers that do not exist.
func (b *Bus) ProvisionConsumers(ctx context.Context, consumers ...Consumer) error {
	for _, c := range consumers {
		if _, err := b.consumer(ctx, c); err != nil {
			return fmt.Errorf("provision: %w", err)
		}
	}
	return nil
}

// ConsumerInfo returns the state of a consumer, or ok false if it does not exist.
func (b *Bus) ConsumerInfo(ctx context.Context, c Consumer) (info *jetstream.ConsumerInfo, ok bool, err error) {
	cons, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look up consumer %s of %s: %w", c.Name, b.StreamName(c.Stream), err)
	}
	return cons.CachedInfo(), true, nil
}

// Progress is how far a durable consumer is, in sequences of its stream.
type Progress struct {
	// Delivered is the last message that was delivered.
	Delivered uint64
	// Settled is the last message of those without an unsettled one before.
	Settled uint64
}

// ConsumerProgress returns the progress of a consumer. It is zero if no process has
// consumed yet.
func (b *Bus) ConsumerProgress(ctx context.Context, c Consumer) (Progress, error) {
	info, ok, err := b.ConsumerInfo(ctx, c)
	if !ok || err != nil {
		return Progress{}, err
	}
	return Progress{Delivered: info.Delivered.Stream, Settled: info.AckFloor.Stream}, nil
}

// consumer returns the durable consumer, and creates it if it does not exist. It
// updates one that an earlier version created with another MaxPending or Lease. A
// process without the permission to do that works with the consumer as it is.
func (b *Bus) consumer(ctx context.Context, c Consumer) (jetstream.Consumer, error) {
	cons, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		err = b.withProvisionTimeout(ctx, func(ctx context.Context) (err error) {
			cons, err = b.js.CreateConsumer(ctx, b.StreamName(c.Stream), b.consumerConfig(c))
			return err
		})
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process created it
			cons, err = b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", c.Name, b.StreamName(c.Stream), err)
	}
	have, want := cons.CachedInfo().Config, b.consumerConfig(c)
	if c.MaxPending == 0 || have.MaxAckPending == want.MaxAckPending && have.AckWait == want.AckWait {
		return cons, nil
	}
	have.MaxAckPending, have.AckWait = want.MaxAckPending, want.AckWait
	err = b.withProvisionTimeout(ctx, func(ctx context.Context) error {
		updated, err := b.js.UpdateConsumer(ctx, b.StreamName(c.Stream), have)
		if err == nil {
			cons = updated
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		b.log.Warn().Err(err).Str("consumer", c.Name).Msg("cannot update the consumer of an earlier version")
	}
	return cons, nil
}
