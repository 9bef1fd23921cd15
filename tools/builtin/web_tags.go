package builtin

import (
	"strings"

	"golang.org/x/net/html"
)

// tagKind is how an element is converted.
type tagKind int

const (
	breaks  tagKind = iota // ends a paragraph, like all unknown tags
	ignored                // within a line, without formatting
	inline                 // formats text within a line
	dropped                // removed together with its content
	heading
	list
	item
	quote
	pre
	tableTag
	row
	cell
	void
)

var tagKinds = map[string]tagKind{
	"a": inline, "b": inline, "strong": inline, "i": inline, "em": inline, "code": inline, "del": inline, "s": inline,
	"abbr": ignored, "bdi": ignored, "bdo": ignored, "big": ignored, "cite": ignored, "data": ignored, "dfn": ignored, "font": ignored,
	"ins": ignored, "kbd": ignored, "label": ignored, "mark": ignored, "output": ignored, "q": ignored, "samp": ignored, "small": ignored,
	"span": ignored, "sub": ignored, "sup": ignored, "time": ignored, "tt": ignored, "u": ignored, "var": ignored, "wbr": ignored,
	"audio": dropped, "canvas": dropped, "iframe": dropped, "math": dropped, "noembed": dropped, "noframes": dropped, "noscript": dropped,
	"object": dropped, "script": dropped, "select": dropped, "style": dropped, "svg": dropped, "template": dropped, "textarea": dropped,
	"title": dropped, "video": dropped,
	"h1": heading, "h2": heading, "h3": heading, "h4": heading, "h5": heading, "h6": heading,
	"ul": list, "ol": list, "li": item, "blockquote": quote, "pre": pre,
	"table": tableTag, "tr": row, "td": cell, "th": cell, "br": void, "hr": void, "img": void,
}

func (p *pieces) setBase(href string) {
	if ref, err := p.base.Parse(href); err == nil && href != "" && (ref.Scheme == "http" || ref.Scheme == "https") {
		p.base = ref
	}
}

// link resolves a link. It returns "" for a link that a reader of text cannot follow.
func (p *pieces) link(href string) string {
	if len(href) > maxHref {
		return ""
	}
	u, err := p.base.Parse(strings.TrimSpace(href))
	if err != nil || href == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	if s := u.String(); len(s) <= maxHref {
		return s
	}
	return ""
}

func eachAttr(z *html.Tokenizer, f func(name, value string)) {
	for more := true; more; {
		var name, value []byte
		if name, value, more = z.TagAttr(); len(name) > 0 {
			f(string(name), string(value))
		}
	}
}

func attrOf(z *html.Tokenizer, want string) (value string) {
	eachAttr(z, func(name, v string) {
		if name == want && value == "" {
			value = v
		}
	})
	return value
}
