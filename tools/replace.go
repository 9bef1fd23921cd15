package tools

import "errors"

// Replace removes tools and adds others in one step: a call of a tool that is in both
// lists always finds one of the two. It leaves out each new tool that Register would
// reject. It returns the names of the tools that it added, and the reasons for those it
// left out.
func (r *Registry) Replace(remove []string, add ...Tool) (added []string, err error) {
	var errs []error
	var entries []entry
	for _, tool := range add { // a schema takes time to resolve, so do it without the lock
		e, err := newEntry(tool)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range remove {
		delete(r.tools, name)
	}
	for _, e := range entries {
		if err := r.addLocked(e); err != nil { // another tool has the name
			errs = append(errs, err)
			continue
		}
		added = append(added, e.def.Name)
	}
	return added, errors.Join(errs...)
}
