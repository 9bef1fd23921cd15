package tables

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// maxCache is the size in bytes of the databases that a Cache keeps for later queries. Tests
// lower it.
var maxCache int64 = 2 << 30

// dirPrefix begins the names of the directories of caches.
const dirPrefix = "stevedore-tables-"

// Cache is a directory with the databases of tables, so that the second query about an artifact is
// fast. The first query makes the directory, which belongs to this process, and removes those that
// ended processes left behind. A Cache is safe for concurrent use.
type Cache struct {
	parent string

	mu    sync.Mutex
	dir   string
	lock  *durable.DirLock
	files map[string]*entry
	made  int
}

// entry is a database in a cache.
type entry struct {
	file  string
	size  int64
	users int
	used  time.Time
}

// NewCache returns a cache in a new directory below parent; "" means os.TempDir().
func NewCache(parent string) *Cache {
	return &Cache{parent: cmp.Or(parent, os.TempDir()), files: map[string]*entry{}}
}

// Dir returns the directory.
func (c *Cache) Dir() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dirLocked()
}

func (c *Cache) dirLocked() (string, error) {
	if _, err := os.Stat(c.dir); err == nil {
		return c.dir, nil
	}
	if c.dir != "" { // what cleans temporary directories has removed it
		_ = c.lock.Unlock()
		c.dir, c.files = "", map[string]*entry{}
	}
	durable.RemoveLeft(c.parent, dirPrefix, os.RemoveAll)
	dir, lock, err := durable.TempDir(c.parent, dirPrefix)
	if err != nil {
		return "", fmt.Errorf("make a directory for the databases of tables: %w", err)
	}
	c.dir, c.lock = dir, lock
	return dir, nil
}

// Take returns the file of the database with a key. If exists is false, the caller writes it. The
// caller calls done after its use.
func (c *Cache) Take(key string) (file string, exists bool, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, err := c.dirLocked()
	if err != nil {
		return "", false, nil, err
	}
	if e := c.files[key]; e != nil {
		if _, err := os.Stat(e.file); err == nil {
			e.users++
			return e.file, true, func() { c.release(e) }, nil
		}
		delete(c.files, key)
	}
	c.made++
	file = filepath.Join(dir, fmt.Sprintf("%d.db", c.made))
	return file, false, func() { c.written(key, file) }, nil
}

func (c *Cache) release(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	e.used = time.Now()
	c.evictLocked()
}

// written adds a database that was written, unless the import failed or somebody else has added
// one.
func (c *Cache) written(key, file string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = os.Remove(file + partSuffix) // of a process that was killed
	info, err := os.Stat(file)
	if err != nil {
		return
	}
	if c.files[key] != nil || c.dir == "" {
		_ = os.Remove(file)
		return
	}
	c.files[key] = &entry{file: file, size: info.Size(), used: time.Now()}
	c.evictLocked()
}

// evictLocked removes the databases that were not used for the longest time, above the limit.
func (c *Cache) evictLocked() {
	for {
		var size int64
		oldest := ""
		for key, e := range c.files {
			size += e.size
			if e.users == 0 && (oldest == "" || e.used.Before(c.files[oldest].used)) {
				oldest = key
			}
		}
		if size <= maxCache || oldest == "" {
			return
		}
		_ = os.Remove(c.files[oldest].file)
		delete(c.files, oldest)
	}
}

// Close removes the directory. Queries that run fail.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		return nil
	}
	_ = c.lock.Unlock()
	dir := c.dir
	c.dir, c.files = "", map[string]*entry{}
	return os.RemoveAll(dir)
}
