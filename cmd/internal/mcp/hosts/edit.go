package hosts

import (
	"errors"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// splice replaces bytes of a file.
type splice struct {
	start, end int
	text       string
}

func applySplices(data []byte, edits []splice) []byte {
	slices.SortFunc(edits, func(a, b splice) int { return b.start - a.start })
	out := string(data)
	for _, e := range edits { // from the end, so that the positions stay
		out = out[:e.start] + e.text + out[e.end:]
	}
	return []byte(out)
}

// targets are prefixes of commands, such as stevedore mcp wrap --, by the path of a server.
type targets map[string][]string

func (t targets) put(path string, prefix []string) {
	if len(prefix) > 0 {
		t[path] = prefix
	}
}

// pathKey joins the keys that lead to a server, in quotes, so that no two paths are equal.
func pathKey(path []string) string { return strings.Join(quoteAll(path), ".") }

// wrap returns the file in which the prefixes are before the commands of these servers.
func (l Location) wrap(data []byte, add targets) ([]byte, error) {
	return l.edit(data, add, func(s Server, prefix []string) ([]string, []splice) {
		return slices.Concat(prefix, s.Command), s.wrapEdits(data, prefix, l.host.format)
	})
}

// unwrap returns the file without these prefixes. A server whose command does not begin
// with its prefix stays as it is.
func (l Location) unwrap(data []byte, remove targets) ([]byte, error) {
	return l.edit(data, remove, func(s Server, prefix []string) ([]string, []splice) {
		if !hasPrefix(s.Command, prefix) {
			return s.Command, nil
		}
		return s.Command[len(prefix):], s.unwrapEdits(data, prefix, l.host.format)
	})
}

func hasPrefix(command, prefix []string) bool {
	return len(command) > len(prefix) && slices.Equal(command[:len(prefix)], prefix)
}

var errEdit = errors.New("its form is not one that can be edited safely")

// edit changes the servers that change names, and checks with a parser that the file then
// has the commands that change returned, and all others as before.
func (l Location) edit(data []byte, which targets, change func(Server, []string) ([]string, []splice)) ([]byte, error) {
	before, err := l.servers(data)
	if err != nil {
		return nil, err
	}
	var edits []splice
	want := make([][]string, len(before))
	for i, s := range before {
		want[i] = s.Command
		if prefix, ok := which[pathKey(s.path)]; ok && s.Left == "" {
			command, more := change(s, prefix)
			want[i], edits = command, append(edits, more...)
		}
	}
	out := applySplices(data, edits)
	after, err := l.servers(out)
	if err != nil || len(after) != len(before) {
		return nil, errEdit
	}
	for i, s := range after {
		if !slices.Equal(s.path, before[i].path) || !slices.Equal(s.Command, want[i]) {
			return nil, errEdit
		}
	}
	return out, nil
}

func (s Server) wrapEdits(data []byte, prefix []string, f format) []splice {
	if s.command.kind == list {
		return []splice{insertItems(data, s.command, quoteAll(prefix))}
	}
	program := splice{s.command.start, s.command.end, quote(prefix[0])}
	original := string(data[s.command.start:s.command.end])
	if s.args == nil {
		return []splice{program, {s.command.lead, s.command.lead, s.newArgs(data, prefix[1:], original, f)}}
	}
	if !s.args.block && !plain.MatchString(original) {
		original = quote(s.command.text)
	}
	return []splice{program, insertItems(data, s.args, append(quoteAll(prefix[1:]), original))}
}

// plain are strings that mean the same in a YAML map and in brackets: in quotes, or
// without special characters. The strings of other formats are always in quotes.
var plain = lazyregexp.New(`^(?s:["'].*|[\w./@+~-]+)$`)

// newArgs returns the member with the arguments for a server that has none. It is inserted
// before the command, because a comment may follow that.
func (s Server) newArgs(data []byte, prefix []string, original string, f format) string {
	if !plain.MatchString(original) {
		original = quote(s.command.text)
	}
	items := append(quoteAll(prefix), original)
	key := string(data[s.command.lead:s.command.name]) // the first parts of a key of TOML
	return key + f.member("args") + "[" + strings.Join(items, ", ") + "]" + separator(data, s.owner, s.command)
}

// separator returns what is between a new child and the present one behind it.
func separator(data []byte, parent, before *node) string {
	comma := ","
	if parent.block {
		comma = ""
	}
	if line, ok := indent(data, before.lead); ok {
		return comma + line
	}
	return comma + " "
}

func insertItems(data []byte, l *node, items []string) splice {
	if len(l.children) == 0 {
		return splice{l.start, l.end, "[" + strings.Join(items, ", ") + "]"}
	}
	first := l.children[0]
	dash := string(data[first.lead:first.start]) // "- " or nothing
	between := separator(data, l, first)
	var b strings.Builder
	for _, item := range items {
		b.WriteString(dash + item + between)
	}
	return splice{first.lead, first.lead, b.String()}
}

func (s Server) unwrapEdits(data []byte, prefix []string, f format) []splice {
	if s.command.kind == list {
		return []splice{removeItems(s.command, len(prefix))}
	}
	original := s.args.children[len(prefix)-1]
	raw := string(data[original.start:original.end])
	program := splice{s.command.start, s.command.end, raw}
	if len(s.args.children) > len(prefix) {
		return []splice{program, removeItems(s.args, len(prefix))}
	}
	if s.args.lead < s.command.lead && string(data[s.args.lead:s.command.lead]) == s.newArgs(data, prefix[1:], raw, f) {
		return []splice{program, {s.args.lead, s.command.lead, ""}}
	}
	return []splice{program, {s.args.start, s.args.end, "[]"}}
}

// removeItems removes the first items of a list that has more.
func removeItems(l *node, n int) splice {
	return splice{l.children[0].lead, l.children[n].lead, ""}
}

func quoteAll(values []string) (all []string) {
	for _, v := range values {
		all = append(all, quote(v))
	}
	return all
}

// quote writes a string in the form of JSON, which TOML and YAML understand, too.
func quote(value string) string {
	text, _ := jsonform.Encode(value) // texts do not fail
	return string(text)
}
