// Package object is an artifact store in a JetStream object store and a key-value bucket.
// It is the only part of offload that uses NATS.
//
// A Put publishes the content in chunks of 128 KiB, several in flight, and then the meta
// message, which names the object by the SHA-256 of the content and holds its line index and
// the stream sequences of its chunks. So a reader can get any block with one request. The
// meta message of a small object lists no sequences, so it is published with the chunks. Both
// messages of an object are those of the stock clients, which can read it. At last the record
// of the artifact is written to the key-value bucket, under <session>.<id>.
//
// A content that is stored already keeps its object: its meta message is published again,
// which makes it young for a sweep, and the new chunks are removed. The stream rejects each
// meta message whose subject has changed since it was read, so Puts and sweeps of several
// processes do not disturb each other. What a dead process leaves has no record, or no meta
// message, and a sweep removes it.
package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Default names of the buckets.
const (
	DefaultBlobBucket   = "stevedore_blobs"
	defaultRecordBucket = "stevedore_artifacts"
)

// Config configures a Store. The zero value works. On a bus with a prefix, set the
// names to those that Bus.BucketName returns for its buckets.
type Config struct {
	offload.StoreConfig
	// Bucket is the object store that holds the bytes. Default DefaultBlobBucket.
	Bucket string
	// Records is the key-value bucket that holds the records. Default "stevedore_artifacts".
	Records string
	// Replicas is for buckets that Open creates. Default 1.
	Replicas int
}

// Store is an offload.Store in a JetStream object store. Each content is an object
// named by its hexadecimal SHA-256, in chunks of index.BlockSize. The stock clients
// can read it. The metadata of the object holds its index and the sequences of its
// chunks, so that the store can read a part of it. The key-value bucket holds the
// records under <session>.<id>.
//
// Producers may put objects with other names into the bucket. PutObject makes
// artifacts of them, and a sweep removes them when they are older than the TTL.
//
// With B and R for the two buckets, a worker needs to publish to $O.B.C.>, $O.B.M.>,
// $KV.R.>, $JS.API.STREAM.{INFO,MSG.GET}.{OBJ_B,KV_R} and
// $JS.API.DIRECT.GET.{OBJ_B,KV_R}. Only a sweep needs
// $JS.API.STREAM.{PURGE,MSG.DELETE}.{OBJ_B,KV_R}; a worker with this
// permission also removes the chunks of its failed uploads.
type Store struct {
	life      record.Lifecycle
	bucket    string
	api       jsapi.API
	publisher jetstream.JetStream // with a timeout for acknowledgements
	blobs     jetstream.Stream
	records   records
	uploads   atomic.Int64                      // running now
	cache     blocks.Cache[string, *cachedBlob] // by digest
	reads     atomic.Int64                      // chunks
	// noPurge is the time, in nanoseconds since 1970, until which no Put purges, because the server denied that or did
	// not answer. An account that may only add leaves its failed uploads to the sweeper.
	noPurge     atomic.Int64
	tidyTimeout time.Duration
}

// ackTimeout is how long the server may take to store one message.
const ackTimeout = 10 * time.Second

// Open opens the store and creates missing buckets. It does not change the
// configuration of existing buckets, except that it stores the format version in one that
// was never used. A bucket of another format is a *jsapi.FormatError.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Store, error) {
	cfg.Bucket = cmp.Or(cfg.Bucket, DefaultBlobBucket)
	cfg.Records = cmp.Or(cfg.Records, defaultRecordBucket)
	s, err := open(ctx, js, cfg)
	if err != nil {
		return nil, fmt.Errorf("open artifact store %q: %w", cfg.Bucket, err)
	}
	return s, nil
}

func open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Store, error) {
	s := &Store{
		life: record.NewLifecycle(cfg.StoreConfig), bucket: cfg.Bucket, api: jsapi.New(js),
		tidyTimeout: 2 * time.Second,
	}
	if limit := js.Conn().MaxPayload(); 0 < limit && limit < index.BlockSize {
		return nil, fmt.Errorf("the server's max_payload is %d bytes; set it to %d or more, the size of a chunk", limit, index.BlockSize)
	}
	err := createBuckets(ctx, js, cfg)
	if err != nil {
		return nil, err
	}
	if err := checkFormats(ctx, js, cfg); err != nil {
		return nil, err
	}
	if s.blobs, err = js.Stream(ctx, s.stream()); err != nil {
		return nil, err
	}
	if s.records, err = openRecords(ctx, js, cfg.Records, s.api, s.life); err != nil {
		return nil, err
	}
	if s.publisher, err = jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(ackTimeout)); err != nil {
		return nil, err
	}
	// A Store has no Close. Otherwise the connection would keep the subscription.
	runtime.AddCleanup(s, func(js jetstream.JetStream) { js.CleanupPublisher() }, s.publisher)
	return s, nil
}

func (s *Store) stream() string { return "OBJ_" + s.bucket }

func createBuckets(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	replicas := max(cfg.Replicas, 1)
	_, err := js.ObjectStore(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateStream(ctx, jsapi.ObjectStream(cfg.Bucket, replicas))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			err = nil // another process created it
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
			Metadata:       jsapi.Base.Mark(nil),
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			err = nil
		}
	}
	return err
}

// checkFormats returns a *jsapi.FormatError if a bucket has another format. It takes over
// a bucket that was never used, for example one that an operator created with a limit.
func checkFormats(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	var other jsapi.FormatError
	for _, name := range []string{"OBJ_" + cfg.Bucket, "KV_" + cfg.Records} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		d, ok := jsapi.CheckFormat(stream.CachedInfo(), jsapi.Base)
		switch {
		case d.Unused:
			config := stream.CachedInfo().Config
			config.Metadata = jsapi.Base.Mark(config.Metadata)
			if _, err := js.UpdateStream(ctx, config); err != nil {
				return err
			}
		case !ok:
			other.Differences = append(other.Differences, d)
		}
	}
	if len(other.Differences) > 0 {
		return &other
	}
	return nil
}

// slowPut is how long a Put may take from its first chunk to its record before it looks whether a sweep has
// removed its object or a chunk. It is shorter than the grace of any sweep that we advise.
const slowPut = 5 * time.Second

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
	began := s.life.Now() // before the first chunk, which a sweep removes if the others do not come
	used, err := s.used(ctx)
	if err != nil {
		return rec, err
	}
	up := s.newUpload(used)
	defer up.close()
	in, err := record.Ingest(ctx, src, func(block []byte) error { return up.send(ctx, block) })
	if err != nil {
		up.discard(ctx)
		return rec, err
	}
	defer in.Release()
	s.life.Complete(&rec, in.Index, in.Digest)
	rec.IndexDigest = indexDigest(in)
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
	rec, err = s.records.create(ctx, rec)
	if err == nil && s.life.Age(began) >= slowPut {
		exists, _, lookup := s.renew(ctx, in.Digest, indexDigest(in))
		if err = lookup; err == nil && !exists {
			err = errors.New("a sweep has removed its content before it had a record; put it again")
		}
	}
	return rec, err
}

// used returns the bytes in the bucket, or 0 if there is no quota.
func (s *Store) used(ctx context.Context) (int64, error) {
	if s.life.Quota <= 0 {
		return 0, nil
	}
	info, err := s.blobs.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("get the size of the bucket: %w", err)
	}
	return int64(info.State.Bytes), nil
}

// tidyPause is how long a server that did not answer a purge gets no other one.
const tidyPause = time.Minute

// tidy removes what a Put does not need, within a short time and even if ctx has
// ended. A sweep would remove it too. A server that denies the removal does not
// answer; the store remembers that for a while, so that few Puts wait for it.
func (s *Store) tidy(ctx context.Context, remove func(context.Context) error) {
	if s.life.Now().UnixNano() < s.noPurge.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.tidyTimeout)
	defer cancel()
	if err := remove(ctx); errors.Is(err, context.DeadlineExceeded) && s.publisher.Conn().IsConnected() {
		s.noPurge.Store(s.life.Now().Add(tidyPause).UnixNano())
	}
}
