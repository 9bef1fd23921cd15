package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// pagesAhead is how many pages are asked for before they can be printed: at
// most 768 KiB each on the way, most often 128 KiB.
const pagesAhead = 6

// pageReader reads the pages of an artifact that is too long for one answer.
type pageReader struct {
	o  *asking
	b  *bus.Bus
	id string
}

// copyAll prints an artifact from a character on. The first page tells how many
// there are, so the others are asked for at the same time.
//
//	page 1, then  ask 2, ask 3 ... ask 7 ->  print 2 -> ask 8
//	                                         print 3 -> ask 9
func copyAll(ctx context.Context, r *pageReader, offset int64, out io.Writer) error {
	first, total, err := r.page(ctx, offset, offload.ReadChars)
	if err != nil {
		return err
	}
	if _, err := out.Write(first); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var asks sync.WaitGroup
	defer asks.Wait()
	defer cancel()
	type answer struct {
		data []byte
		err  error
	}
	var ahead []chan answer
	for next := offset + offload.ReadChars; next < total || len(ahead) > 0; {
		if next < total && len(ahead) < pagesAhead {
			came, at := make(chan answer, 1), next
			asks.Go(func() {
				data, _, err := r.page(ctx, at, offload.ReadChars)
				came <- answer{data, err}
			})
			ahead = append(ahead, came)
			next += offload.ReadChars
			continue
		}
		page := <-ahead[0]
		if page.err != nil {
			return page.err
		}
		if _, err := out.Write(page.data); err != nil {
			return err
		}
		ahead = ahead[1:]
	}
	return nil
}

// page returns the bytes of so many characters, and how many characters there
// are. A server that takes small messages only is asked for half, and half.
func (r *pageReader) page(ctx context.Context, offset, chars int64) (data []byte, total int64, err error) {
	body, err := r.o.ask(ctx, r.b, "artifact", "read", rpc.ReadRequest{ArtifactID: r.id, Offset: offset, Limit: chars})
	if tools.CodeOf(err) == rpc.CodeTooLarge && chars > 1 {
		half := chars / 2
		data, total, err = r.page(ctx, offset, half)
		if err != nil || offset+half >= total {
			return data, total, err
		}
		rest, _, err := r.page(ctx, offset+half, chars-half)
		return append(data, rest...), total, err
	}
	if err != nil {
		return nil, 0, err
	}
	var page rpc.ReadPage
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, 0, fmt.Errorf("read page at %d: %w", offset, err)
	}
	return page.Bytes(), page.TotalChars, nil
}
