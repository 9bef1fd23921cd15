package channel

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

var placeholder = lazyregexp.New(`\{\{[^{}]*(?:\}\})?`)

// fill replaces the placeholders of a template (see HTTPConfig.Template). It does
// not use text/template, which looks up methods by name: the linker would then
// keep every exported method of the program, which adds 18 MB.
func fill(template, contentType string, m message) (_ []byte, err error) {
	values := map[string]any{".Title": m.Title, ".Text": m.Text, ".Session": m.Session, ".Tool": m.Tool, ".ID": m.ID,
		".IsError": m.IsError, ".Markdown": m.Markdown}
	body := placeholder.ReplaceAllStringFunc(template, func(found string) string {
		inner, closed := strings.CutSuffix(found[2:], "}}")
		name, asJSON := strings.CutPrefix(strings.TrimSpace(inner), "json ")
		value, ok := values[strings.TrimSpace(name)]
		if !ok || !closed {
			err = fmt.Errorf("unknown placeholder %q; want {{NAME}} or {{json NAME}}, and as NAME one of %s", tools.Excerpt(found, 40),
				strings.Join(slices.Sorted(maps.Keys(values)), ", "))
			return ""
		}
		encoded, _ := json.Marshal(value) // strings and booleans do not fail
		text, isString := value.(string)
		switch {
		case asJSON || !isString:
			return string(encoded)
		case strings.Contains(contentType, "json"):
			return string(encoded[1 : len(encoded)-1])
		case strings.Contains(contentType, "form-urlencoded"):
			return url.QueryEscape(text)
		}
		return text
	})
	return []byte(body), err
}
