package offload

import (
	"context"
	"sync"
)

// maxEarlier is how many contents an Offloader remembers.
const maxEarlier = 4_096

// sameContent identifies equal contents, or equal calls, in a session.
type sameContent struct{ session, digest string }

// earlier remembers which artifact of a session had a content, or the result of a call. It knows
// only what this process stored lately: without it, a reference only has a longer preview.
type earlier struct {
	mu    sync.Mutex
	ids   map[sameContent]string
	order []sameContent
}

// first returns the id that had the content first, which is id if none did.
func (e *earlier) first(c sameContent, id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first := e.ids[c]; first != "" {
		return first
	}
	if e.ids == nil {
		e.ids = map[sameContent]string{}
	}
	if len(e.order) == maxEarlier {
		delete(e.ids, e.order[0])
		e.order = e.order[1:]
	}
	e.ids[c] = id
	e.order = append(e.order, c)
	return id
}

// replace makes id the first one, because the one before is gone.
func (e *earlier) replace(c sameContent, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ids[c] != "" {
		e.ids[c] = id
	}
}

// sameAs returns the id of an earlier artifact of the session with the content of rec, or "".
func (o *Offloader) sameAs(ctx context.Context, rec Record) string {
	c := sameContent{rec.Session, rec.Digest}
	first := o.earlier.first(c, rec.ID)
	if first == rec.ID || rec.Digest == "" {
		return ""
	}
	if found, err := o.store.Get(ctx, rec.Session, first); err != nil || found.Digest != rec.Digest {
		o.earlier.replace(c, rec.ID)
		return ""
	}
	return first
}
