package offload

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// maxComparedJSON is the size in bytes of the largest JSON whose records are compared: as values, it
// takes ten times that.
const maxComparedJSON = 1 << 20

// maxComparedDepth is how many levels are compared one by one.
const maxComparedDepth = 12

// recordKeys are the fields that identify a record, best first.
var recordKeys = strings.Fields("id uid uuid key sha name path file url number title")

// difference is what changed between two values.
type difference struct {
	added, gone []string
	changed     []string // one for each record, with its fields
	record      string   // of the last one
}

// compareJSON says which records of two texts of JSON are new, gone and changed, or returns "" if one
// of them is no JSON.
func compareJSON(old, now string) string {
	before, err := decodeAll(old)
	if err != nil {
		return ""
	}
	after, err := decodeAll(now)
	if err != nil {
		return ""
	}
	d := &difference{}
	d.values("", "", before, after, 0)
	if len(d.added)+len(d.gone)+len(d.changed) == 0 {
		return "it has the same values in another order or form."
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%d values are new, %d are gone, and %d records have changed; the first of them:", len(d.added), len(d.gone), len(d.changed)))
	for _, kind := range []struct {
		sign string
		all  []string
	}{{"+", d.added}, {"-", d.gone}, {"~", d.changed}} {
		for _, change := range kind.all[:min(changedLines, len(kind.all))] {
			text.WriteString("\n" + kind.sign + " " + neutralise(tools.Excerpt(change, 160)))
		}
	}
	return text.String()
}

// decodeAll decodes a document, or all rows of NDJSON as an array.
func decodeAll(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var all []any
	for {
		var v any
		err := dec.Decode(&v)
		switch {
		case err == io.EOF && len(all) == 1:
			return all[0], nil
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, v)
	}
}

// values compares the values of a field of a record.
func (d *difference) values(record, field string, old, now any, depth int) {
	oldList, ok := old.([]any)
	if list, both := now.([]any); ok && both && depth < maxComparedDepth {
		d.lists(record+field, oldList, list, depth+1)
		return
	}
	oldObject, ok := old.(map[string]any)
	if object, both := now.(map[string]any); ok && both && depth < maxComparedDepth {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, ok := oldObject[name]; ok {
				d.values(record, field+describe.Step(name), oldObject[name], object[name], depth+1)
			} else {
				d.added = append(d.added, record+field+describe.Step(name)+": "+brief(object[name]))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(oldObject)) {
			if _, ok := object[name]; !ok {
				d.gone = append(d.gone, record+field+describe.Step(name)+": "+brief(oldObject[name]))
			}
		}
		return
	}
	if reflect.DeepEqual(old, now) {
		return
	}
	change := fmt.Sprintf("%s: %s -> %s", field, brief(old), brief(now))
	if last := len(d.changed) - 1; last >= 0 && d.record == record && record != "" {
		d.changed[last] += ", " + change
		return
	}
	d.changed, d.record = append(d.changed, record+change), record
}

// lists compares arrays: by a key that each element has, or else by position if they are as long, or
// by the whole elements.
func (d *difference) lists(path string, old, now []any, depth int) {
	key := keyOf(old, now)
	ids := func(list []any) []string {
		names, counts := make([]string, len(list)), map[string]int{}
		for i, v := range list {
			switch {
			case key != "":
				names[i] = fmt.Sprintf("%s[%s=%s]", path, key, brief(v.(map[string]any)[key]))
			case len(old) == len(now):
				names[i] = fmt.Sprintf("%s[%d]", path, i)
			default:
				text, _ := jsonform.Encode(v) // the value was JSON
				names[i] = fmt.Sprintf("%s[]: %s", path, text)
				if counts[names[i]]++; counts[names[i]] > 1 {
					names[i] += fmt.Sprintf(" (%d times)", counts[names[i]])
				}
			}
		}
		return names
	}
	whole := func(id string, v any) string {
		if key != "" {
			return id + " " + brief(v)
		}
		return id
	}
	before, oldIDs := map[string]any{}, ids(old)
	for i, id := range oldIDs {
		before[id] = old[i]
	}
	for i, id := range ids(now) {
		if was, ok := before[id]; ok {
			d.values(id, "", was, now[i], depth)
			delete(before, id)
		} else {
			d.added = append(d.added, whole(id, now[i]))
		}
	}
	for i, id := range oldIDs {
		if _, ok := before[id]; ok {
			d.gone = append(d.gone, whole(id, old[i]))
		}
	}
}

// keyOf returns a field that has another value in each element of both arrays, or "".
func keyOf(lists ...[]any) string {
	for _, key := range recordKeys {
		if !slices.ContainsFunc(lists, func(list []any) bool {
			seen := map[string]bool{}
			return slices.ContainsFunc(list, func(v any) bool {
				object, _ := v.(map[string]any)
				id := brief(object[key])
				again := seen[id]
				seen[id] = true
				return again || object[key] == nil
			})
		}) {
			return key
		}
	}
	return ""
}

// brief returns the start of the JSON of a value.
func brief(v any) string {
	data, err := jsonform.Encode(v)
	if err != nil {
		return fmt.Sprint(v) // impossible: the value was JSON
	}
	return tools.Excerpt(string(data), 60)
}
