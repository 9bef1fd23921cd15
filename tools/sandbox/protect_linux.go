package sandbox

import "github.com/stevedore-bus/stevedore/tools/sandbox/internal/enter"

// mounts returns the mounts that protect the repositories in dirs. A Git directory is
// pinned: a command could otherwise rename it and put another one in its place.
func (r *repositories) mounts(dirs []string) []enter.Mount {
	var all []enter.Mount
	for _, repo := range r.find(dirs) {
		if len(repo.sealed) != 1 || repo.sealed[0] != repo.dir {
			all = append(all, enter.Mount{Kind: enter.Pinned, Path: repo.dir})
		}
		for _, path := range repo.sealed {
			all = append(all, enter.Mount{Kind: enter.SealedIn, Path: path})
		}
	}
	return all
}
