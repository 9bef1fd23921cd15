package object

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// maxGrowth is how many bytes a process may grow for a content of any size.
const maxGrowth = 64 << 20

// TestMemory puts and reads a content that is larger than maxGrowth, in a process for
// each store that is not in memory. With STEVEDORE_LONG, the content has 1 GB,
// otherwise 160 MB.
func TestMemory(t *testing.T) {
	const env = "STEVEDORE_TEST_MEMORY"
	if spec := os.Getenv(env); spec != "" {
		growthOf(t, spec, os.Getenv(env+"_URL"))
		return
	}
	slow.Test(t)
	if testing.Short() {
		t.Skip("writes 160 MB twice")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system does not report the size of a process")
	}
	srv := startServer(t, server.Options{Host: "127.0.0.1", Port: -1})
	for _, spec := range []string{"object", "disk:" + t.TempDir()} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+spec, env+"_URL="+srv.ClientURL())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", spec, err, out)
		}
		m := regexp.MustCompile(`grew by (\d+) bytes, heap (\d+)`).FindSubmatch(out)
		if m == nil {
			t.Fatalf("%s: no report:\n%s", spec, out)
		}
		grew, _ := strconv.Atoi(string(m[1]))
		heap, _ := strconv.Atoi(string(m[2]))
		t.Logf("%s: the process grew by %d MiB, its heap by %d MiB", spec[:4], grew>>20, heap>>20)
		if grew > maxGrowth {
			t.Errorf("%s: the process grew by %d bytes, want at most %d", spec, grew, maxGrowth)
		}
	}
}

func growthOf(t *testing.T, spec, url string) {
	size := int64(160 << 20)
	if os.Getenv("STEVEDORE_LONG") != "" {
		size = 1 << 30
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var s offload.Store
	if dir, onDisk := strings.CutPrefix(spec, "disk:"); onDisk {
		s, err = disk.Open(dir, offload.StoreConfig{})
	} else {
		s, err = Open(ctx, js, Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	idle := peakRSS(t)
	heap := peakHeap(func() {
		out, err := s.Put(ctx, storetest.NewRecord("s", "a"), endless(size), nil)
		if err != nil || out.Size != size {
			t.Errorf("put: %d bytes, %v", out.Size, err)
			return
		}
		c, err := s.Open(ctx, out)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if _, err := io.Copy(io.Discard, io.NewSectionReader(c, 0, c.Size())); err != nil {
			t.Error(err)
		}
	})
	fmt.Printf("grew by %d bytes, heap %d\n", peakRSS(t)-idle, heap)
}

// endless returns text of any size that uses no memory.
func endless(size int64) io.Reader {
	line := []byte("2025-01-02T03:04:05Z INFO a line of a log with some words in it, number 0000000000\n")
	n, at := 0, len(line)
	return io.LimitReader(readFunc(func(p []byte) (int, error) {
		if at == len(line) {
			copy(line[len(line)-11:], fmt.Sprintf("%010d", n))
			n, at = n+1, 0
		}
		m := copy(p, line[at:])
		at += m
		return m, nil
	}), size)
}

// peakRSS returns the largest resident size of the process.
func peakRSS(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kb << 10
}

// TestLinesReadFewChunks: 20 lines take only the chunks that contain them.
func TestLinesReadFewChunks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	js := connect(t, startServer(t, server.Options{StoreDir: dir}))
	s := openTest(t, js, Config{})
	data, err := io.ReadAll(endless(40*index.BlockSize + 99))
	if err != nil {
		t.Fatal(err)
	}
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	r := offload.NewReader(s, offload.ReaderConfig{})
	const rounds = 300
	before, most, messages := s.reads.Load(), int64(0), uint64(0)
	for range rounds {
		last, came := s.reads.Load(), js.Conn().Stats().InMsgs
		first := 1 + rand.Int64N(out.Lines-20)
		if _, err := r.GetByLines(t.Context(), "s", "a", offload.LinesQuery{StartLine: first, EndLine: first + 19}); err != nil {
			t.Fatal(err)
		}
		most = max(most, s.reads.Load()-last)
		messages = max(messages, js.Conn().Stats().InMsgs-came)
	}
	if total := s.reads.Load() - before; float64(total) > 1.1*rounds || most > 2 {
		t.Errorf("%d ranges took %d chunk reads, at most %d for one; want 1.1 each, and 2", rounds, total, most)
	}
	if messages > 4 { // a record, an object the first time, and two chunks
		t.Errorf("a range took %d messages from the server, want 4 at most", messages)
	}
	// To return one chunk, the server reads the file that contains it.
	if files, err := filepath.Glob(dir + "/jetstream/*/streams/OBJ_*/msgs/*.blk"); err != nil || len(files) < 2 {
		t.Errorf("the server keeps 5 MB in %d file(s), %v; want files of 4 MiB", len(files), err)
	}
	c, err := s.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at, err := c.Index().LineOffset(c, out.Lines/2)
	if err != nil || data[at-1] != '\n' || bytes.Count(data[:at], []byte("\n")) != int(out.Lines/2-1) {
		t.Errorf("the middle line is not at %d, %v", at, err)
	}
}

// peakHeap runs f and returns the maximum growth of live memory, including a server in
// this process.
func peakHeap(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	idle, peak := read(), uint64(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-tick.C:
			if now := read(); now > idle {
				peak = max(peak, now-idle)
			}
		}
	}
}
