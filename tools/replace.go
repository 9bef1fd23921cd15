package tools

import "slices"

// Replace removes tools and registers others. It fails, and then changes nothing but
// the removed ones, if a new tool cannot be registered.
func (r *Registry) Replace(remove []string, add ...Tool) error {
	r.mu.Lock()
	for name := range r.tools {
		if slices.Contains(remove, name) {
			delete(r.tools, name)
		}
	}
	r.mu.Unlock()
	return r.Register(add...)
}
