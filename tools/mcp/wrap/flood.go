package wrap

import (
	"strings"
	"sync"
	"time"
)

// flood limits how many notifications of progress, logs and changed lists reach the
// client. A host must not stall because its server has too much to say.
type flood struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

// bucket is a token bucket.
type bucket struct {
	tokens  float64
	at      time.Time
	trailer bool // a notification is sent when tokens are back
}

const (
	floodBurst = 1000
	floodRate  = 200 // per second
)

func newFlood() *flood { return &flood{buckets: map[string]*bucket{}} }

// drop reports whether a notification is one too many. A dropped notification that a
// list has changed must not be lost: flood calls later once when the flood is over.
func (f *flood) drop(method string, later func()) bool {
	if method != "notifications/progress" && method != "notifications/message" && !strings.HasSuffix(method, "/list_changed") {
		return false // the others mean something; a slow client slows their server down
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.buckets) > 100 { // a server that invents methods
		method = ""
	}
	b := f.buckets[method]
	if b == nil {
		b = &bucket{tokens: floodBurst, at: time.Now()}
		f.buckets[method] = b
	}
	now := time.Now()
	b.tokens = min(floodBurst, b.tokens+floodRate*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return false
	}
	if strings.HasSuffix(method, "/list_changed") && !b.trailer {
		b.trailer = true
		time.AfterFunc(time.Second, func() {
			f.mu.Lock()
			b.trailer = false
			f.mu.Unlock()
			later()
		})
	}
	return true
}
