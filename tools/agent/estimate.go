package agent

import "github.com/stevedore-bus/stevedore/offload"

// estimate is about how many tokens a request has. What cannot be encoded counts
// nothing; the provider will say what is wrong with it.
func estimate(counter offload.Counter, req Request) int64 {
	n := counter.Count(req.System)
	for _, v := range []any{req.Messages, req.Tools} {
		if data, err := encode(v); err == nil {
			n += counter.Count(string(data))
		}
	}
	return n
}
