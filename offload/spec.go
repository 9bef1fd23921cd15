package offload

import (
	"context"
	"fmt"
	"strings"
)

// Spec names a store: "disk:DIR", "object:BUCKET" or "mem".
type Spec struct {
	Kind string // disk, object or mem
	Arg  string // the directory or the bucket
}

// ParseSpec reads a spec. "object" alone means the default bucket.
func ParseSpec(s string) (Spec, error) {
	kind, arg, _ := strings.Cut(s, ":")
	switch {
	case kind == "disk" && arg == "":
		return Spec{}, fmt.Errorf("store %q: name a directory, as in disk:./artifacts", s)
	case kind == "object" && strings.ContainsAny(arg, " .*>/\\:"):
		return Spec{}, fmt.Errorf("store %q: %q is no name of a bucket; use letters, digits, - and _", s, arg)
	case kind == "disk", kind == "object", s == "mem":
		return Spec{Kind: kind, Arg: arg}, nil
	}
	return Spec{}, fmt.Errorf("store %q: want disk:DIR, object:BUCKET or mem", s)
}

// String is the spec that ParseSpec reads.
func (s Spec) String() string {
	if s.Arg == "" {
		return s.Kind
	}
	return s.Kind + ":" + s.Arg
}

// OpenStore opens the store that spec names. Stores in NATS are opened by
// object, which the caller makes of OpenObject and its connection; nil refuses
// them. close gives back what the store holds, but no connection.
func OpenStore(ctx context.Context, spec string, cfg StoreConfig, object func(ctx context.Context, bucket string, cfg StoreConfig) (Store, error)) (store Store, close func() error, err error) {
	nothing := func() error { return nil }
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, nothing, err
	}
	switch s.Kind {
	case "mem":
		return NewMem(cfg), nothing, nil
	case "disk":
		d, err := OpenDisk(s.Arg, cfg)
		if err != nil {
			return nil, nothing, err
		}
		return d, d.Close, nil
	}
	if object == nil {
		return nil, nothing, fmt.Errorf("store %q: there is no NATS connection here; use disk:DIR or mem", spec)
	}
	store, err = object(ctx, s.Arg, cfg)
	return store, nothing, err
}
