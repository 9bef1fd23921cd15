package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is one setting of an existing stream or bucket that is not what
// this version would create.
type Difference struct {
	Name    string `json:"name"`
	Setting string `json:"setting"`
	Have    string `json:"have"`
	Want    string `json:"want"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s, want %s", d.Name, d.Setting, d.Have, d.Want)
}

// Provisioned is what Provision found and did.
type Provisioned struct {
	// Created are the streams and buckets that were missing, by name.
	Created []string
	// Differences are what was not as this version would create it.
	Differences []Difference
}

// Provision creates the streams and buckets that are missing. What exists is altered
// only if update says so; otherwise the differences are returned for the operator to
// see. A bucket goes by the name of the stream that it is. With an error, what was
// done before it is returned. It needs the right to look at streams, and the right to
// create them only if one is missing.
func (b *Bus) Provision(ctx context.Context, update bool) (Provisioned, error) {
	var done Provisioned
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
	for _, want := range b.streams() {
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
		stream, err = b.js.Stream(ctx, want.Name) // another process was first
	}
	if err != nil {
		return false, nil, err
	}
	config := stream.CachedInfo().Config
	if b.cfg.Replicas <= 0 {
		want.Replicas = config.Replicas
	}
	if b.cfg.MaxBytes <= 0 {
		want.MaxBytes = config.MaxBytes
	}
	diffs = align(&config, want)
	if len(diffs) == 0 || !update {
		return false, diffs, nil
	}
	return false, diffs, b.settle(ctx, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, config)
		return err
	})
}

// settlePatience is how long the server may take to make or change something. A
// cluster answers when the replicas have a leader. The first vote takes less than a
// second, but if it fails, as it does where the machines are busy, the next one
// begins 4 to 9 s later.
const settlePatience = 30 * time.Second

// settle calls f, which asks the server to make or to change something.
func (b *Bus) settle(ctx context.Context, f func(context.Context) error) error {
	patience := max(b.cfg.Timeout, settlePatience)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("the server did not answer within %s; are most servers of the cluster up? %w", patience, err)
	}
	return err
}

// minMaxBytes is the least that a stream is worth having with.
const minMaxBytes = 16 << 20

// The server's codes for "no room" (errors.json: JSStorageResourcesExceededErr,
// JSInsufficientResourcesErr).
const (
	errStorageExceeded   = 10047
	errResourcesExceeded = 10023
)

// createStream creates a stream. Where its size was left to us, it gets as much
// as the server has room for, up to the default.
func (b *Bus) createStream(ctx context.Context, want jetstream.StreamConfig) error {
	for {
		err := b.settle(ctx, func(ctx context.Context) error {
			_, err := b.js.CreateStream(ctx, want)
			return err
		})
		api, ok := errors.AsType[*jetstream.APIError](err)
		switch {
		case !ok || api.ErrorCode != errStorageExceeded && api.ErrorCode != errResourcesExceeded:
			return err
		case want.MaxBytes <= 0: // it reserves nothing
			return err
		case b.cfg.MaxBytes > 0 || want.MaxBytes/2 < minMaxBytes:
			return fmt.Errorf("%w: it wants to reserve %d MiB; make room on the server's disk, or ask for less with --max-bytes", err, want.MaxBytes>>20)
		}
		want.MaxBytes /= 2
	}
}

// align gives have the settings of want on which a promise rests, and tells
// which were different. All else is the operator's.
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
	setting(&d, "allow_msg_ttl", &have.AllowMsgTTL, want.AllowMsgTTL)
	setting(&d, "allow_msg_schedules", &have.AllowMsgSchedules, want.AllowMsgSchedules)
	return d.found
}

// alignBucket is align for a bucket. How much it may hold, and for how long, is the
// operator's.
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

// consumer returns the durable consumer, created if it is missing.
func (b *Bus) consumer(ctx context.Context, c Consumer) (jetstream.Consumer, error) {
	cons, err := b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		err = b.settle(ctx, func(ctx context.Context) (err error) {
			cons, err = b.js.CreateConsumer(ctx, b.StreamName(c.Stream), b.consumerConfig(c))
			return err
		})
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was first
			cons, err = b.js.Consumer(ctx, b.StreamName(c.Stream), c.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", c.Name, b.StreamName(c.Stream), err)
	}
	return cons, nil
}
