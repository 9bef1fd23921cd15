package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestStockClientReads: stock clients can read our objects.
func TestStockClientReads(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	stock, err := js.ObjectStore(t.Context(), DefaultBlobBucket)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []int{0, 1, index.BlockSize, 4*index.BlockSize + 1, 20 * index.BlockSize} {
		data := storetest.Text(size, 30)
		out := storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("a", i)), data)
		name := strings.TrimPrefix(out.Digest, offload.DigestPrefix)
		got, err := stock.GetBytes(t.Context(), name)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		info, err := stock.GetInfo(t.Context(), name)
		if err != nil || info.Size != uint64(size) || info.Chunks != uint32((size+index.BlockSize-1)/index.BlockSize) {
			t.Errorf("%d bytes: info %+v, %v", size, info, err)
		}
	}
	if list, err := stock.List(t.Context()); err != nil || len(list) != 5 {
		t.Errorf("list: %d, %v", len(list), err)
	}
}

// TestStockClientDeletes: a content that another client deleted is corrupt until the
// next Put.
func TestStockClientDeletes(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	stock, err := js.ObjectStore(t.Context(), DefaultBlobBucket)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []int{10, 9 * index.BlockSize} {
		data := storetest.Text(size, 31)
		out := storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("a", i)), data)
		if err := stock.Delete(t.Context(), strings.TrimPrefix(out.Digest, offload.DigestPrefix)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(t.Context(), out); !errors.Is(err, offload.ErrCorrupt) {
			t.Errorf("open: %v, want ErrCorrupt", err)
		}
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", out.ID), data), data)
	}
}

func TestPutObject(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	stock, err := js.ObjectStore(t.Context(), DefaultBlobBucket)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		size  int
		chunk uint32
	}{{0, 0}, {10, 0}, {3 * index.BlockSize, 1000}, {20*index.BlockSize + 5, 0}, {9 * index.BlockSize, 300_000}} {
		name, data := fmt.Sprint("upload ", i), storetest.Text(c.size, 32)
		meta := jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: c.chunk}}
		if _, err := stock.Put(t.Context(), meta, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		out, err := s.PutObject(t.Context(), storetest.NewRecord("s", fmt.Sprint("a", i)), name, nil)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := stock.Delete(t.Context(), name); err != nil { // it belongs to the producer
			t.Fatal(err)
		}
		storetest.CheckContent(t, s, out, data)
	}
	if err := stock.Delete(t.Context(), "upload 1"); err != nil {
		t.Fatal(err)
	}
	info, err := stock.PutString(t.Context(), "damaged", strings.Repeat("x", 1000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stock.AddLink(t.Context(), "link", info); err != nil {
		t.Fatal(err)
	}
	if err := s.blobs.Purge(t.Context(), jetstream.WithPurgeSubject(s.chunkSubject(info.NUID))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"damaged": offload.ErrCorrupt, "link": offload.ErrNotFound, "nothing": offload.ErrNotFound, "upload 1": offload.ErrNotFound, "": offload.ErrNotFound, strings.Repeat("x", 5000): offload.ErrNotFound,
	} {
		if _, err := s.PutObject(t.Context(), storetest.NewRecord("s", "bad"), name, nil); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", name, err, want)
		}
	}
	if _, err := s.Get(t.Context(), "s", "bad"); !errors.Is(err, offload.ErrNotFound) {
		t.Errorf("a record is left: %v", err)
	}
}

// Any client can guess or see the digest of a content. It must not open the artifact of
// another session.
func TestPutObjectOfAnotherSession(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	secret := storetest.Put(t, s, storetest.NewRecord("theirs", "a"), []byte("their secret"))
	name := strings.TrimPrefix(secret.Digest, "sha256:")
	for _, name := range []string{name, strings.ToUpper(name)} {
		if _, err := s.PutObject(t.Context(), storetest.NewRecord("mine", "a"), name, nil); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSweepKeepsObjectsOfProducers: an object of a producer waits for its call.
func TestSweepKeepsObjectsOfProducers(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	var c storetest.Clock
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{TTL: 24 * time.Hour, Now: c.Now}})
	stock, err := js.ObjectStore(t.Context(), DefaultBlobBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stock.PutString(t.Context(), "upload", "text"); err != nil {
		t.Fatal(err)
	}
	c.Advance(23 * time.Hour)
	if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("%+v, %v; want nothing", report, err)
	}
	c.Advance(2 * time.Hour)
	if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report.Blobs != 1 || report.Bytes != 4 {
		t.Errorf("%+v, %v; want the upload", report, err)
	}
}

// TestSweepRemovesOrphans: an unfinished upload leaves chunks without an object.
func TestSweepRemovesOrphans(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	var c storetest.Clock
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: c.Now}})
	kept := storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(9*index.BlockSize, 33))
	up := newTestUpload(t, s)
	for range 3 {
		if err := up.send(t.Context(), storetest.Text(index.BlockSize, 34)); err != nil {
			t.Fatal(err)
		}
	}
	if err := up.awaitAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("%+v, %v; want nothing yet", report, err)
	}
	c.Advance(2 * time.Hour)
	if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report != (offload.SweepReport{Orphans: 3, Bytes: 3 * index.BlockSize}) {
		t.Errorf("%+v, %v; want 3 orphans", report, err)
	}
	storetest.CheckContent(t, s, kept, storetest.Text(9*index.BlockSize, 33))
}

// A Put that stands still for longer than the grace of a sweep, before its record, does not name bytes that are gone.
func TestSweepDuringASlowPut(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	now, data := time.Now(), storetest.Text(9*index.BlockSize, 37)
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: func() time.Time { return now }}})
	for i, stops := range []bool{true, false} {
		out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), bytes.NewReader(data), func(*offload.Record, offload.Content) error {
			if !stops {
				return nil
			}
			now = now.Add(time.Minute)
			report, err := s.Sweep(t.Context(), 10*time.Second)
			if err == nil && report.Blobs != 1 {
				t.Errorf("sweep: %+v", report)
			}
			return err
		})
		switch {
		case err == nil:
			storetest.CheckContent(t, s, out, data)
		case !stops:
			t.Errorf("attempt %d: %v", i+1, err)
		}
	}
}

// A replica that stood still, or is cut off, answers with what it has. A sweep keeps the objects that it lacks, and their chunks
// can be read.
func TestSweepBesideAReplicaThatLags(t *testing.T) {
	t.Parallel()
	js, clock := connect(t, startServer(t, server.Options{})), &storetest.Clock{}
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: clock.Now}})
	data := storetest.Text(3*index.BlockSize, 38)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	bustest.Lag(t, js, s.stream(), s.metaSubject(strings.TrimPrefix(out.Digest, offload.DigestPrefix)))
	clock.Advance(2 * time.Hour)
	for range 20 {
		if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report != (offload.SweepReport{}) {
			t.Fatalf("%+v, %v", report, err)
		}
		storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
	}
}

// A sweep and a list miss no record that is read meanwhile, which moves it to the end of its stream.
func TestListWhileRecordsMove(t *testing.T) {
	t.Parallel()
	const records = 300
	js, clock := connect(t, startServer(t, server.Options{})), &storetest.Clock{}
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: clock.Now}})
	for i := range records {
		storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint(i)), []byte(fmt.Sprint("content ", i)))
	}
	for range 10 {
		clock.Advance(2 * time.Hour) // each read extends the time of its record, and the content is old
		var reading sync.WaitGroup
		reading.Go(func() {
			for _, i := range rand.Perm(records) {
				if _, err := s.Get(t.Context(), "s", fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			}
		})
		listed := 0
		for _, err := range s.List(t.Context(), "s") {
			if listed++; err != nil {
				t.Error(err)
			}
		}
		report, err := s.Sweep(t.Context(), time.Hour)
		if reading.Wait(); err != nil || listed != records || report != (offload.SweepReport{}) {
			t.Fatalf("%d of %d records were listed; the sweep: %+v, %v", listed, records, report, err)
		}
	}
}

// A Put that stands still between two chunks, for longer than the grace of a sweep, does not store a record whose content lacks chunks.
func TestSweepBetweenTwoChunks(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	now, data := time.Now(), storetest.Text(9*index.BlockSize, 38)
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: func() time.Time { return now }}})
	stands := readFunc(func([]byte) (int, error) {
		for {
			info, err := s.blobs.Info(t.Context())
			if err != nil {
				return 0, err
			}
			if info.State.Msgs > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		now = now.Add(time.Minute)
		if report, err := s.Sweep(t.Context(), 10*time.Second); err != nil || report.Orphans == 0 {
			return 0, fmt.Errorf("sweep: %+v, %w", report, err)
		}
		return 0, io.EOF
	})
	half := len(data) * 2 / 3
	slow := io.MultiReader(bytes.NewReader(data[:half]), stands, bytes.NewReader(data[half:]))
	if out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), slow, nil); err == nil {
		storetest.CheckContent(t, s, out, data)
	}
	out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), bytes.NewReader(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.CheckContent(t, s, out, data)
}

// TestSweepKeepsContentOfPut: an old content without a record becomes young when a Put
// finds it.
func TestSweepKeepsContentOfPut(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	const grace = 20 * time.Millisecond
	var now time.Time
	s := openTest(t, js, Config{StoreConfig: offload.StoreConfig{Now: func() time.Time { return now }}})
	for i, size := range []int{10, 9 * index.BlockSize} {
		data := storetest.Text(size, 36)
		now = time.Now()
		storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("old", i)), data)
		if err := s.Delete(t.Context(), "s", fmt.Sprint("old", i)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * grace)
		now = time.Now() // stop the clock, so that all later writes are young
		out, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprint("a", i)), bytes.NewReader(data), func(*offload.Record, offload.Content) error {
			_, err := s.Sweep(t.Context(), grace)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		storetest.CheckContent(t, s, out, data)
	}
}

// TestServerQuota: a full bucket is ErrQuota.
func TestServerQuota(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	_, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: DefaultBlobBucket, MaxBytes: 4 * index.BlockSize})
	if err != nil {
		t.Fatal(err)
	}
	s := openTest(t, js, Config{})
	first := storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(2*index.BlockSize, 36))
	for _, size := range []int{2*index.BlockSize + 10, 3 * index.BlockSize, 5 * index.BlockSize, 9 * index.BlockSize} {
		if _, err := s.Put(t.Context(), storetest.NewRecord("s", "b"), bytes.NewReader(storetest.Text(size, 37)), nil); !errors.Is(err, offload.ErrQuota) {
			t.Errorf("%d bytes: %v, want ErrQuota", size, err)
		}
		if _, err := s.Get(t.Context(), "s", "b"); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("%d bytes: a record is left: %v", size, err)
		}
		if objects, err := s.objects(t.Context()); err != nil || len(objects) != 1 {
			t.Errorf("%d bytes: %d objects, %v; want the first only", size, len(objects), err)
		}
	}
	storetest.CheckContent(t, s, first, storetest.Text(2*index.BlockSize, 36))
	storetest.Put(t, s, storetest.NewRecord("s", "b"), storetest.Text(100, 38)) // it fits, because the failed Put left nothing
}

// proxy connects a client and a server until the test cuts the connection.
type proxy struct {
	l    net.Listener
	to   string
	mu   sync.Mutex
	open []net.Conn
	left int64 // bytes from the client to forward; -1 for all
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, left: -1}
	t.Cleanup(func() { l.Close(); p.cut() })
	go p.serve() // ends when the listener is closed
	return p
}

// connect connects through the proxy and reconnects forever.
func (p *proxy) connect(t *testing.T) jetstream.JetStream {
	nc, err := nats.Connect("nats://"+p.l.Addr().String(), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func (p *proxy) serve() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.to)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, c, s)
		p.mu.Unlock()
		go io.Copy(c, s)
		go io.Copy(s, readFunc(func(b []byte) (int, error) {
			n, err := c.Read(b)
			if p.spend(int64(n)) {
				p.cut()
				return 0, io.ErrClosedPipe
			}
			return n, err
		}))
	}
}

// spend reports whether no bytes are left to forward.
func (p *proxy) spend(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 {
		return false
	}
	p.left = max(p.left-n, 0)
	return p.left == 0
}

// allow forwards n bytes and then cuts the connection; -1 repairs it.
func (p *proxy) allow(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}

// TestCutConnection cuts the network after any number of bytes of a Put. The Put fails
// or succeeds, the next one succeeds, and after a sweep every object has a record.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Options{Host: "127.0.0.1", Port: -1})
	p := newProxy(t, srv.Addr().String())
	s := openTest(t, p.connect(t), Config{})
	s.tidyTimeout = 100 * time.Millisecond
	calm := openTest(t, connect(t, srv), Config{})
	size := 12 * index.BlockSize
	for i, after := range []int64{1, 100, index.BlockSize / 2, 3 * index.BlockSize, 11 * index.BlockSize, int64(size) + 500, int64(size) + 2500} {
		data := storetest.Text(size, uint64(40+i))
		id := fmt.Sprint("a", i)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		p.allow(after)
		_, failed := s.Put(ctx, storetest.NewRecord("s", id), bytes.NewReader(data), nil)
		cancel()
		p.allow(-1)
		if _, err := calm.Get(t.Context(), "s", id); failed != nil && err == nil {
			t.Logf("cut after %d: the put failed (%v) but is recorded: its answer was lost", after, failed)
		} else if failed == nil && err != nil {
			t.Errorf("cut after %d: the put succeeded without a record", after)
		}
		out := storetest.Put(t, calm, storetest.NewRecord("s", id), data)
		storetest.CheckContent(t, calm, out, data)
	}
	if _, err := calm.Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	info, err := calm.blobs.Info(t.Context(), jetstream.WithSubjectFilter(calm.chunkSubject(">")))
	if err != nil || len(info.State.Subjects) != 7 || info.State.Msgs != 7*(12+1) {
		t.Errorf("%d uploads, %d messages, %v; want 7 of 12 chunks and one meta", len(info.State.Subjects), info.State.Msgs, err)
	}
}

// TestCutWhileReading: a read continues after the client reconnects.
func TestCutWhileReading(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Options{Host: "127.0.0.1", Port: -1})
	p := newProxy(t, srv.Addr().String())
	js, err := jetstream.New(p.connect(t).Conn(), jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s := openTest(t, js, Config{})
	data := storetest.Text(100*index.BlockSize, 50)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	c, err := s.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got bytes.Buffer
	buf := make([]byte, index.BlockSize)
	for i, off := 0, int64(0); off < c.Size(); i++ {
		if i == 20 || i == 60 {
			p.cut()
		}
		n, err := c.ReadAt(buf, off)
		for tries := 0; err != nil && tries < 30; tries++ { // the request in flight is lost, and a busy client connects late
			n, err = c.ReadAt(buf, off)
		}
		if err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		got.Write(buf[:n])
		off += int64(n)
	}
	if !bytes.Equal(got.Bytes(), data) {
		t.Error("read other bytes than were put")
	}
}

// TestServerRestart: artifacts are stored after the server restarts.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := startServer(t, server.Options{StoreDir: dir})
	data := storetest.Text(20*index.BlockSize, 51)
	out := storetest.Put(t, openTest(t, connect(t, srv), Config{}), storetest.NewRecord("s", "a"), data)
	srv.Shutdown()
	srv.WaitForShutdown()
	s := openTest(t, connect(t, startServer(t, server.Options{StoreDir: dir})), Config{})
	got, err := s.Get(t.Context(), "s", "a")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(out) {
		t.Fatalf("get: %+v, %v; want %+v", got, err, out)
	}
	storetest.CheckContent(t, s, got, data)
}

// TestAccountThatMayOnlyAdd: a worker without the permission to remove can put, finds
// stored content, and leaves the rest to the sweeper.
func TestAccountThatMayOnlyAdd(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Options{
		Users: []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "worker", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.>"}},
			}},
		},
	})
	admin := openTest(t, connect(t, srv, nats.UserInfo("admin", "x")), Config{})
	worker := openTest(t, connect(t, srv, nats.UserInfo("worker", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), Config{})
	for i := range 3 {
		for _, size := range []int{10, 9 * index.BlockSize} {
			storetest.CheckContent(t, worker, storetest.Put(t, worker, storetest.NewRecord("s", fmt.Sprintf("a%d-%d", size, i)), storetest.Text(size, 52)), storetest.Text(size, 52))
		}
	}
	if worker.noPurge.Load() == 0 {
		t.Error("the worker repeats a denied request")
	}
	report, err := admin.Sweep(t.Context(), 0)
	if err != nil || report.Orphans != 2*(1+9) || report.Blobs != 0 {
		t.Errorf("sweep: %+v, %v; want the chunks of two small and two large uploads", report, err)
	}
}

// TestSummaryLeavesNothingBehind: after a Put, no requests of its summary are open.
func TestSummaryLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	json := []byte("[" + strings.Repeat(`"0123456789",`, 10*index.BlockSize/13) + "1]")
	before := js.Conn().NumSubscriptions()
	for i := range 3 {
		// Each content differs, and its first blocks are no longer in memory.
		json[2] = byte('a' + i)
		if _, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprint("a", i)), bytes.NewReader(json), readWhole); err != nil {
			t.Fatal(err)
		}
	}
	if after := js.Conn().NumSubscriptions(); after > before+1 { // one is for acknowledgements
		t.Errorf("%d subscriptions were left open, by 3 puts", after-before)
	}
}

func readWhole(_ *offload.Record, c offload.Content) error {
	_, err := io.Copy(io.Discard, io.NewSectionReader(c, 0, c.Size()))
	return err
}
