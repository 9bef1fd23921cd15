package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// validName matches the ids and tool names that every provider accepts. Anthropic
// and OpenAI reject a whole conversation, and each later turn of it, if one id or
// name in it does not match.
var validName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// maxInvalidInput is how much of an invalid input the model sees again, in bytes.
const maxInvalidInput = 2000

// normalize returns a turn of the model in a form that every provider accepts:
// each call has an id that is unique in the conversation, a valid name, and an
// object as its input. It leaves blank texts out, and changes nothing else.
func (b *messageBuilder) normalize(content []Block) []Block {
	b.turns++
	out := slices.DeleteFunc(slices.Clone(content), Block.isBlank) // older logs have some
	for i, block := range out {
		if block.Type != TypeToolUse {
			continue
		}
		fixed := block
		if !validName.MatchString(block.ID) || b.ids[block.ID] {
			fixed.ID = fmt.Sprintf("call_%d_%d", b.turns, i)
			for b.ids[fixed.ID] {
				fixed.ID += "_"
			}
		}
		if !validName.MatchString(block.Name) {
			fixed.Name = normalizeName(block.Name)
		}
		switch input := bytes.TrimSpace(block.Input); {
		case len(input) == 0:
			fixed.Input = json.RawMessage("{}")
		case input[0] != '{':
			fixed.Input = wrapInvalidInput(input)
		}
		if fixed.ID != block.ID || fixed.Name != block.Name || !bytes.Equal(fixed.Input, block.Input) {
			out[i] = ToolUse(fixed.ID, fixed.Name, fixed.Input)
		}
		b.ids[fixed.ID] = true
	}
	return out
}

// wrapInvalidInput returns an object that shows the model its invalid input. An
// OpenAI provider encodes invalid JSON as a JSON string.
func wrapInvalidInput(input []byte) json.RawMessage {
	shown := string(input)
	var text string
	if json.Unmarshal(input, &text) == nil {
		shown = text
	}
	object, _ := jsonform.Encode(map[string]string{"not_a_json_object": tools.Excerpt(shown, maxInvalidInput)}) // texts do not fail
	return object
}

var invalidNameChars = lazyregexp.New(`[^A-Za-z0-9_-]+`)

func normalizeName(name string) string {
	name = invalidNameChars.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}
