package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state"
)

// The last channels that "stevedore up" had in a file are on the bus afterwards, without those that the bus
// knows already. A file that is not readable stays, and the error names it.
func TestMovesFactsToTheBus(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	connection := cli.Connection{Data: t.TempDir()}
	file := filepath.Join(connection.Data, "state.json")
	facts, err := openFacts(t.Context(), &connection, b)
	if err == nil {
		err = state.SetLastChannel(t.Context(), facts, "s2", state.Channel{Name: "new"}, false)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(`{"facts":{"last_channel.s1":{"value":"telegram:42","updated_at":"2026-01-02T15:04:05Z"},
			"last_channel.s2":{"value":"old","updated_at":"2026-01-02T15:04:05Z"}},"revision":2,"updated_at":"2026-01-02T15:04:05Z","version":1}`), 0o600)
	}
	if err == nil {
		facts, err = openFacts(t.Context(), &connection, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]string{"s1": "telegram:42", "s2": "new"} {
		if got, err := state.LastChannel(t.Context(), facts, session); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", session, got, err, want)
		}
	}
	if _, err := os.Stat(file + ".moved"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFacts(t.Context(), &connection, b); err == nil {
		t.Error("a damaged file is accepted")
	}
}
