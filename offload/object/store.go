package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Names of the buckets, by default.
const (
	DefaultBlobBucket   = "stevedore_blobs"
	DefaultRecordBucket = "stevedore_artifacts"
)

// ObjectConfig configures an Store. The zero value works; beside a bus with a
// prefix of its own, give the names that Bus.BucketName has for its buckets.
type Config struct {
	offload.StoreConfig
	// Bucket is the object store that keeps the bytes. Default
	// DefaultBlobBucket.
	Bucket string
	// Records is the key-value bucket that keeps the records. Default
	// DefaultRecordBucket.
	Records string
	// Replicas is for buckets that are created. Default 1.
	Replicas int
}

// Store is a Store in a JetStream object store. Content is an object named
// by its hexadecimal SHA-256, in chunks of index.BlockSize; the stock clients can
// read it. Its index and the sequences of its chunks stand in the object's
// metadata, so that a part is read without the rest. Records are in a key-value
// bucket, under <session>.<id>.
//
// Objects of other names, which producers put there themselves, are left alone
// for the TTL; PutObject makes artifacts of them.
//
// With B and R for the two buckets, a worker publishes to $O.B.C.>, $O.B.M.>,
// $KV.R.>, $JS.API.STREAM.{INFO,MSG.GET}.{OBJ_B,KV_R} and
// $JS.API.DIRECT.GET.{OBJ_B,KV_R}, and to list to $JS.API.CONSUMER.*.KV_R.>;
// the right to remove, $JS.API.STREAM.{PURGE,MSG.DELETE}.{OBJ_B,KV_R}, is the
// sweeper's. A worker that has it tidies up after itself.
type Store struct {
	life    record.Lifecycle
	bucket  string
	api     api
	link    link
	idle    chan *acks // of uploads that ended
	blobs   jetstream.Stream
	records records
	opened  openBlobs
	reads   atomic.Int64
	// noPurge is set once purging was refused or not answered: an account that
	// may only add leaves what it no longer needs to the sweeper.
	noPurge     atomic.Bool
	tidyTimeout time.Duration
	ackTimeout  time.Duration
	// recheck is how long a Put may take from its blob to its record before it
	// looks whether a sweep took the blob.
	recheck time.Duration
}

// sweepMargin is the default of recheck; a sweep's grace should be longer.
const sweepMargin = 10 * time.Second

// OpenObject opens the store, and creates the buckets that are missing. An
// existing bucket is taken as it is.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Store, error) {
	if cfg.Bucket == "" {
		cfg.Bucket = DefaultBlobBucket
	}
	if cfg.Records == "" {
		cfg.Records = DefaultRecordBucket
	}
	s, err := openObject(ctx, js, cfg)
	if err != nil {
		return nil, fmt.Errorf("open artifact store %q: %w", cfg.Bucket, err)
	}
	return s, nil
}

func openObject(ctx context.Context, js jetstream.JetStream, cfg Config) (*Store, error) {
	s := &Store{
		life: record.NewLifecycle(cfg.StoreConfig), bucket: cfg.Bucket,
		api: newAPI(js), idle: make(chan *acks, idleAcks),
		tidyTimeout: 2 * time.Second, ackTimeout: defaultAckTimeout, recheck: sweepMargin,
	}
	err := createBuckets(ctx, js, cfg)
	if err != nil {
		return nil, err
	}
	if s.blobs, err = js.Stream(ctx, "OBJ_"+cfg.Bucket); err != nil {
		return nil, err
	}
	if err := s.link.measure(ctx, s.api, s.blobs); err != nil {
		return nil, err
	}
	if s.records, err = openRecords(ctx, js, cfg.Records, s.api, s.life); err != nil {
		return nil, err
	}
	// A store has no Close, and the connection would keep the subscriptions.
	runtime.AddCleanup(s, endAcks, s.idle)
	return s, nil
}

func createBuckets(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	replicas := max(cfg.Replicas, 1)
	_, err := js.ObjectStore(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateStream(ctx, objectStream(cfg.Bucket, replicas))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			err = nil // another process was faster
		}
	}
	if err != nil {
		return err
	}
	_, err = js.KeyValue(ctx, cfg.Records)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: cfg.Records, Replicas: replicas, History: 1, Description: "artifacts of Stevedore: records",
			LimitMarkerTTL: time.Hour, // as bus.Provision makes it
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			err = nil
		}
	}
	return err
}

// objectStream is the stream that the stock clients would make of an object
// store (ADR-20), but for a limit on the messages of a subject, which no object
// reaches: with one, the server keeps messages in files of 4 MiB instead of 8,
// and to answer for one message it reads its file whole.
func objectStream(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        "OBJ_" + bucket,
		Description: "artifacts of Stevedore: bytes by their SHA-256",
		Subjects:    []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Discard:     jetstream.DiscardNew, AllowRollup: true, AllowDirect: true,
		Replicas: replicas, MaxMsgsPerSubject: 1 << 40,
	}
}

// ChunkReads counts the chunks that were read from the server.
func (s *Store) ChunkReads() int64 { return s.reads.Load() }

// Put implements Store.
func (s *Store) Put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	out, err := s.put(ctx, rec, src, summarize)
	if err != nil {
		return offload.Record{}, fmt.Errorf("put artifact %q: %w", rec.ID, err)
	}
	return out, nil
}

func (s *Store) put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	if err := record.CheckKey(rec.Session, rec.ID); err != nil {
		return rec, err
	}
	used, err := s.used(ctx)
	if err != nil {
		return rec, err
	}
	up, err := s.newUpload(used)
	if err != nil {
		return rec, err
	}
	defer up.close()
	in, err := record.Ingest(ctx, src, func(block []byte) error { return up.send(ctx, block) })
	if err != nil {
		up.discard(ctx)
		return rec, err
	}
	defer in.Release()
	s.life.Complete(&rec, in.Index, in.Digest)
	began := time.Now()
	if err := up.commit(ctx, in); err != nil {
		return rec, err
	}
	if summarize != nil {
		c := s.newPutContent(ctx, in)
		defer c.Close()
		if err := summarize(&rec, c); err != nil {
			return rec, fmt.Errorf("summarize: %w", err)
		}
	}
	out, err := s.records.create(ctx, rec)
	if err != nil || time.Since(began) < s.recheck {
		return out, err
	}
	if err = s.still(ctx, in.Digest); err != nil && out.CreatedAt.Equal(rec.CreatedAt) {
		err = errors.Join(err, s.records.delete(ctx, rec.Session, rec.ID))
	}
	return out, err
}

// still looks, after a Put that took long, whether a sweep took its bytes.
func (s *Store) still(ctx context.Context, digest string) error {
	if b, err := s.blob(ctx, digest); err != nil {
		return err
	} else if !s.whole(ctx, b) {
		return fmt.Errorf("a sweep removed the bytes before they were recorded, put them again: %w", offload.ErrCorrupt)
	}
	return nil
}

// used is what the quota is compared with; 0 if there is none.
func (s *Store) used(ctx context.Context) (int64, error) {
	if s.life.Quota <= 0 {
		return 0, nil
	}
	info, err := s.blobs.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask how full the bucket is: %w", err)
	}
	return int64(info.State.Bytes), nil
}
