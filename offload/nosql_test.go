package offload

import (
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// A program without SQLite says so, and what to use instead.
func TestProgramWithoutSQL(t *testing.T) {
	t.Parallel()
	r := stored(t, []byte("id,name\n1,Ann\n"))
	_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT 1", Artifacts: []string{"a"}})
	wantCode(t, err, tools.CodeToolFailed, "this program has no SQL; use jq_knowledge or grep_knowledge")
}
