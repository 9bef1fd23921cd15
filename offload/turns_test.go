package offload

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools"
)

// Reads of two rows answer while another session, and another tenant, has more reads without end
// than there are slots.
func TestSmallReadsAmongEndlessOnes(t *testing.T) {
	slow.Test(t)
	store := newFakeStore(StoreConfig{})
	const rows = "id,name\n1,Ann\n2,Bob\n"
	for _, session := range []string{"hostile", "calm", "other"} {
		putArtifact(t, store, session, "rows", []byte(rows))
		putArtifact(t, store, session, "line", hostileText(1, 4<<20))
	}
	pool := newPool()
	red, blue := pool.Tenant(), pool.Tenant()
	cache := tables.NewCache(t.TempDir())
	t.Cleanup(func() { _ = cache.Close() })
	cfg := ReaderConfig{Pool: red, SQLCache: cache, SQLTime: time.Hour, JQTime: time.Hour, GrepTime: time.Hour}
	r := NewReader(store, cfg)
	cfg.Pool = blue
	ofBlue := NewReader(store, cfg)

	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var ended atomic.Int32
	defer flood.Wait()
	defer stop()
	for range 4 {
		for _, read := range []func() error{
			func() error {
				_, err := r.SQL(ctx, "hostile", SQLQuery{SQL: "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c"})
				return err
			},
			func() error { _, err := r.JQ(ctx, "hostile", "rows", JQQuery{Query: "last(range(1e12))"}); return err },
			func() error { _, err := r.Grep(ctx, "hostile", "line", GrepQuery{Pattern: hostilePattern}); return err },
		} {
			flood.Go(func() {
				if err := read(); tools.CodeOf(err) != tools.CodeTimeout { // one that waits for its turn gives up
					ended.Add(1)
				}
			})
		}
	}
	var calm sync.WaitGroup // at the same time, because the reads without end use all processors meanwhile
	for session, r := range map[string]*Reader{"calm": r, "other": ofBlue, "hostile": r} {
		calm.Go(func() {
			sql, err := r.SQL(t.Context(), session, SQLQuery{SQL: "SELECT count(*) FROM rows"})
			if err != nil || sql.Text() != "Found 1 row(s):\n\ncount(*)\n2" {
				t.Errorf("SQL of %s: %+v, %v", session, sql, err)
			}
			jq, err := r.JQ(t.Context(), session, "rows", JQQuery{Query: "length"})
			if err != nil || string(jq.Results[0]) != "2" {
				t.Errorf("jq of %s: %+v, %v", session, jq, err)
			}
			grep, err := r.Grep(t.Context(), session, "rows", GrepQuery{Pattern: "B.b"})
			if err != nil || grep.Matches != 1 {
				t.Errorf("grep of %s: %+v, %v", session, grep, err)
			}
		})
	}
	calm.Wait()
	if n := ended.Load(); n > 0 {
		t.Errorf("%d reads without end have ended", n)
	}
}
