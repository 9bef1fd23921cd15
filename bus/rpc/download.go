package rpc

import (
	"context"
	"io"
	"sync"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// maxPagesAhead is the number of pages to request before they can be written. A page
// has at most 768 KiB, most often 128 KiB.
const maxPagesAhead = 6

// Download writes an artifact of a session from a character offset on. The first page tells the
// length of the artifact, so Download requests the other pages concurrently.
//
//	page 1, then  request 2, 3 ... 7 ->  write 2 -> request 8
//	                                     write 3 -> request 9
func Download(ctx context.Context, b *bus.Bus, session, id string, offset int64, out io.Writer) error {
	first, total, err := readPage(ctx, b, session, id, offset, offload.ReadChars)
	if err != nil {
		return err
	}
	if _, err := out.Write(first); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var requests sync.WaitGroup
	defer requests.Wait()
	defer cancel()
	type page struct {
		data []byte
		err  error
	}
	var ahead []chan page
	for next := offset + offload.ReadChars; next < total || len(ahead) > 0; {
		if next < total && len(ahead) < maxPagesAhead {
			received, at := make(chan page, 1), next
			requests.Go(func() {
				data, _, err := readPage(ctx, b, session, id, at, offload.ReadChars)
				received <- page{data, err}
			})
			ahead = append(ahead, received)
			next += offload.ReadChars
			continue
		}
		p := <-ahead[0]
		if p.err != nil {
			return p.err
		}
		if _, err := out.Write(p.data); err != nil {
			return err
		}
		ahead = ahead[1:]
	}
	return nil
}

// readPage returns the bytes of a number of characters, and the length of the artifact in
// characters. If they exceed the server's max_payload, it requests two halves.
func readPage(ctx context.Context, b *bus.Bus, session, id string, offset, chars int64) (data []byte, total int64, err error) {
	page, err := ReadArtifact.Do(ctx, b, session, ReadRequest{ArtifactID: id, Offset: offset, Limit: chars})
	if tools.CodeOf(err) == codeTooLarge && chars > 1 {
		half := chars / 2
		data, total, err = readPage(ctx, b, session, id, offset, half)
		if err != nil || offset+half >= total {
			return data, total, err
		}
		rest, _, err := readPage(ctx, b, session, id, offset+half, chars-half)
		return append(data, rest...), total, err
	}
	if err != nil {
		return nil, 0, err
	}
	return page.Bytes(), page.TotalChars, nil
}
