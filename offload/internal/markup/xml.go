package markup

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// path is what the elements of one path have in common.
type path struct {
	name   string
	paths  map[string]*path
	parent *element // of the last one
	many   bool     // one parent has several
	object bool     // one has attributes or elements
}

type element struct {
	*path
	attributes []xml.Attr
	text       []byte
	elements   []*element
}

func (w *writer) xml(text []byte, cut bool) error {
	top := &element{path: &path{paths: map[string]*path{}}}
	if err := top.read(text, cut); err != nil {
		return err
	}
	if len(top.elements) != 1 || len(bytes.TrimSpace(top.text)) > 0 {
		return errors.New("it is not one element")
	}
	if root := top.elements[0]; root.name == "plist" && len(root.elements) == 1 {
		w.property(root.elements[0])
	} else {
		w.element(top, 0)
	}
	return nil
}

// read reads the elements within one.
func (e *element) read(text []byte, cut bool) error {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(_ string, utf8 io.Reader) (io.Reader, error) { return utf8, nil }
	for open := []*element{e}; ; {
		token, err := dec.RawToken()
		last := open[len(open)-1]
		wrong, ok := errors.AsType[*xml.SyntaxError](err)
		switch {
		case err == io.EOF && len(open) == 1, cut && (err == io.EOF || ok && wrong.Msg == "unexpected EOF"):
			return nil
		case err == io.EOF:
			return fmt.Errorf("the element %.100q has no end", last.name)
		case err != nil:
			return err
		case len(open) > maxDepth:
			return errors.New("it is nested too deeply")
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, last.add(fullName(token.Name), token.Attr))
		case xml.EndElement:
			if len(open) == 1 || fullName(token.Name) != last.name {
				return fmt.Errorf("</%.100s> ends another element", fullName(token.Name))
			}
			open = open[:len(open)-1]
		case xml.CharData:
			last.text = append(last.text, token...)
		}
	}
}

func fullName(name xml.Name) string { return strings.TrimPrefix(name.Space+":"+name.Local, ":") }

// add adds an element within one.
func (e *element) add(name string, attributes []xml.Attr) *element {
	p := e.paths[name]
	if p == nil {
		p = &path{name: name, paths: map[string]*path{}}
		e.paths[name] = p
	}
	p.many, p.parent = p.many || p.parent == e, e
	p.object = p.object || len(attributes) > 0
	e.object = true
	inner := &element{path: p, attributes: attributes}
	e.elements = append(e.elements, inner)
	return inner
}

// element writes an element.
func (w *writer) element(e *element, depth int) {
	text := strings.TrimSpace(string(e.text))
	if !w.enter(depth) || !e.object {
		w.string(text)
		return
	}
	w.put(jsontext.BeginObject)
	for _, a := range e.attributes {
		w.string("@" + fullName(a.Name))
		w.string(a.Value)
	}
	groups := map[*path][]*element{}
	for _, inner := range e.elements {
		groups[inner.path] = append(groups[inner.path], inner)
	}
	for _, first := range e.elements {
		group := groups[first.path]
		if delete(groups, first.path); group == nil {
			continue // written with one before
		}
		if w.string(first.name); first.many {
			w.put(jsontext.BeginArray)
		}
		for _, inner := range group {
			w.element(inner, depth+1)
		}
		if first.many {
			w.put(jsontext.EndArray)
		}
	}
	if text != "" {
		w.string("#text")
		w.string(text)
	}
	w.put(jsontext.EndObject)
}

// property writes a value of a property list.
func (w *writer) property(e *element) {
	text := strings.TrimSpace(string(e.text))
	switch e.name {
	case "dict":
		w.put(jsontext.BeginObject)
		for i, inner := range e.elements {
			if isKey := inner.name == "key"; isKey != (i%2 == 0) {
				w.err = errors.New("a value of the property list has no key")
			} else if isKey {
				w.string(string(inner.text))
			} else {
				w.property(inner)
			}
		}
		w.put(jsontext.EndObject)
	case "array":
		w.put(jsontext.BeginArray)
		for _, inner := range e.elements {
			w.property(inner)
		}
		w.put(jsontext.EndArray)
	case "true", "false":
		w.put(jsontext.Bool(e.name == "true"))
	case "integer", "real":
		w.number(text)
	default:
		w.string(text)
	}
}
