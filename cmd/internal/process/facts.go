package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state"
)

// openFacts opens the last channels of the users of a bus. An earlier version of "stevedore up" had them in
// a file, which other processes of its bus did not see.
func openFacts(ctx context.Context, connection *cli.Connection, b *bus.Bus) (state.Store, error) {
	facts := agents.Facts(b)
	if connection.External() {
		return facts, nil
	}
	file := filepath.Join(connection.Data, "state.json")
	if err := moveFacts(ctx, file, facts); err != nil {
		return nil, fmt.Errorf("move the last channels of users from %s to the bus: %w; without the file, users write once to be known again", file, err)
	}
	return facts, nil
}

// moveFacts moves what the bucket lacks, and renames the file.
func moveFacts(ctx context.Context, file string, facts state.Store) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old struct{ Facts map[string]state.Fact }
	if err == nil {
		err = json.Unmarshal(data, &old)
	}
	values := map[string]string{}
	for key, fact := range old.Facts {
		if err == nil {
			var newer state.Fact
			if newer, err = facts.Get(ctx, key); newer.Value == "" {
				values[key] = fact.Value
			}
		}
	}
	if err == nil {
		err = facts.Set(ctx, values)
	}
	if err == nil {
		err = os.Rename(file, file+".moved")
	}
	return err
}
