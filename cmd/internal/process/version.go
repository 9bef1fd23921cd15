package process

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version describes this program, as the Go toolchain recorded it in the binary.
type Version struct {
	Version  string `json:"version"`          // of the module; (devel) if unknown
	Commit   string `json:"commit,omitempty"` // with the suffix -dirty if files were changed
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// ReadVersion returns the version of this program.
func ReadVersion() Version {
	v := Version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if v.Commit != "" && dirty {
		v.Commit += "-dirty"
	}
	return v
}

// semantic returns the version without its "v", or "" if it is unknown.
func (v Version) semantic() string {
	semantic, ok := strings.CutPrefix(v.Version, "v")
	if !ok {
		return ""
	}
	return semantic
}
