package blocks

import (
	"slices"
	"sync"
)

// cacheSize is how many values a Cache holds.
const cacheSize = 8

// Cache holds the values that were used last, such as the blocks of a content by their numbers.
type Cache[K comparable, V any] struct {
	mu   sync.Mutex
	list []cached[K, V] // the one used last is the last
}

type cached[K comparable, V any] struct {
	key   K
	value V
}

// Get returns the value of a key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(e cached[K, V]) bool { return e.key == key })
	if i < 0 {
		return value, false
	}
	e := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), e)
	return e.value, true
}

// Add sets the value of a key.
func (c *Cache[K, V]) Add(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(e cached[K, V]) bool { return e.key == key })
	if len(c.list) == cacheSize {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, cached[K, V]{key, value})
}
