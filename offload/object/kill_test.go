package object

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestObjectKilled kills a process during several Puts. Every Put that returned is
// stored, every record has its bytes, and after a sweep every chunk belongs to a
// record.
func TestObjectKilled(t *testing.T) {
	t.Parallel()
	const env = "STEVEDORE_TEST_OBJECT_KILLED"
	data := func(i int) []byte { return storetest.Text((1+i%12)*index.BlockSize+i, uint64(i%5)) }
	if url := os.Getenv(env); url != "" {
		putForever(t, url, data)
		return
	}
	if testing.Short() {
		t.Skip("kills processes, across which the race detector finds nothing")
	}
	srv := startServer(t, server.Options{Host: "127.0.0.1", Port: -1})
	js := connect(t, srv)
	others := srv.NumClients()
	for range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestObjectKilled$", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+srv.ClientURL())
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		heard := map[string]int{}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var id string
			var i int
			if _, err := fmt.Sscanf(lines.Text(), "put %s %d", &id, &i); err != nil {
				continue
			}
			if heard[id] = i; len(heard) == 3 {
				time.AfterFunc(rand.N(20*time.Millisecond), func() { cmd.Process.Kill() })
			}
		}
		cmd.Wait()
		for srv.NumClients() > others { // otherwise the server may store more of what the process sent
			time.Sleep(time.Millisecond)
		}
		if len(heard) < 3 {
			t.Fatalf("the process ended after %d puts", len(heard))
		}
		s := openTest(t, js, Config{})
		for id, i := range heard {
			r, err := s.Get(t.Context(), "s", id)
			if err != nil {
				t.Fatal(err)
			}
			storetest.CheckContent(t, s, r, data(i))
		}
		if _, err := s.Sweep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		named, want := map[string]bool{}, uint64(0)
		for r, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			got, err := storetest.ReadAll(t.Context(), s, r)
			if err != nil || int64(len(got)) != r.Size {
				t.Errorf("%s has %d bytes, %v; want %d", r.ID, len(got), err, r.Size)
			}
			if !named[r.Digest] {
				named[r.Digest] = true
				want += uint64((r.Size + index.BlockSize - 1) / index.BlockSize)
			}
		}
		if got := chunksOf(t, s, ">"); got != want {
			t.Errorf("%d chunks are stored, the records have %d", got, want)
		}
	}
}

// putForever puts from several goroutines and prints what was put. It puts some
// contents twice at the same time.
func putForever(t *testing.T, url string, data func(i int) []byte) {
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := openTest(t, js, Config{})
	var putting sync.WaitGroup
	for g := range 3 {
		putting.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("a%d_%d_%d", os.Getpid(), g, i)
				if _, err := s.Put(context.Background(), storetest.NewRecord("s", id), bytes.NewReader(data(i)), nil); err != nil {
					t.Errorf("put %d: %v", i, err)
					return
				}
				fmt.Println("put", id, i)
			}
		})
	}
	putting.Wait()
}
