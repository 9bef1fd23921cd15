package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
)

// acceptable matches the ids and names that every provider takes back. Anthropic
// and OpenAI refuse a conversation in which one does not fit, and so every
// further turn of it.
var acceptable = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// maxBroken is how much of arguments that are no JSON object the model gets to
// see again, in bytes.
const maxBroken = 2000

// wellFormed is a turn of the model as it may go back to any provider: calls
// have ids that are theirs alone in the conversation, names of the usual form,
// and objects as arguments. All else, and calls that are so already, stay as
// they came.
func (b *builder) wellFormed(content []Block) []Block {
	b.turns++
	out := slices.Clone(content)
	for i, block := range out {
		if block.Type != TypeToolUse {
			continue
		}
		made := block
		if !acceptable.MatchString(block.ID) || b.ids[block.ID] {
			made.ID = fmt.Sprintf("call_%d_%d", b.turns, i)
			for b.ids[made.ID] {
				made.ID += "_"
			}
		}
		if !acceptable.MatchString(block.Name) {
			made.Name = wellFormedName(block.Name)
		}
		switch input := bytes.TrimSpace(block.Input); {
		case len(input) == 0:
			made.Input = json.RawMessage("{}")
		case input[0] != '{':
			made.Input = notAnObject(input)
		}
		if made.ID != block.ID || made.Name != block.Name || !bytes.Equal(made.Input, block.Input) {
			out[i] = ToolUse(made.ID, made.Name, made.Input)
		}
		b.ids[made.ID] = true
	}
	return out
}

// notAnObject stands for arguments that are none, so that the model sees what
// it said.
func notAnObject(input []byte) json.RawMessage {
	said := string(input)
	var text string // see openAIInput
	if json.Unmarshal(input, &text) == nil {
		said = text
	}
	made, err := EncodeJSON(map[string]string{"not_a_json_object": tools.Excerpt(said, maxBroken)})
	if err != nil {
		return nil // cannot be: a string always has a JSON form
	}
	return made
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func wellFormedName(name string) string {
	name = notInNames.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}
