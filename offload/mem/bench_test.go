package mem

import (
	"fmt"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/internal/benchtest"
	"github.com/stevedore-bus/stevedore/tools"
)

// BenchmarkOffload measures Offloader.Result with a store in memory.
func BenchmarkOffload(b *testing.B) {
	for _, size := range []int{1 << 20, 10 << 20} {
		text := string(benchtest.Log(size))
		b.Run(fmt.Sprint(size>>20, "MiB"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				n++
				o := offload.NewOffloader(New(offload.StoreConfig{}), offload.Config{})
				if _, err := o.Result(b.Context(), tools.Call{ID: fmt.Sprint(n), Session: "s", Tool: "t"}, tools.Definition{}, tools.NewToolResult(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
