package markup

import (
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// WriteMarkdown returns the function that writes a text in the Markdown of a service. It
// writes only the marks of this package: an image would make the reader's program
// fetch any URL that the author of the text chose, and so send him data.
func WriteMarkdown(escape func(string) string, showLink func(url string) (before, after string)) func(Styled) string {
	escapeText := func(text string) string {
		text = escape(text)
		if before, ok := strings.CutSuffix(text, "!"); ok { // before a link, it makes an image
			return before + `\!`
		}
		return text
	}
	return func(s Styled) string {
		return s.markup(func(sp Span, inner string) (before, after string) {
			switch sp.Style {
			case Link:
				return showLink(sp.URL)
			case Block:
				fence := fenceFor(inner, "```")
				return fence + sp.Language + "\n", "\n" + fence
			case Code:
				fence := fenceFor(inner, "`")
				if strings.HasPrefix(inner, "`") || strings.HasSuffix(inner, "`") {
					return fence + " ", " " + fence
				}
				return fence, fence
			case Bold:
				return "**", "**"
			case Italic:
				return "_", "_"
			case Strike:
				return "~~", "~~"
			}
			return "", ""
		}, escapeText, func(code string) string { return code })
	}
}

// fenceFor returns backticks that do not occur in a code.
func fenceFor(code, fence string) string {
	for strings.Contains(code, fence) {
		fence += "`"
	}
	return fence
}

// MarkdownLink writes a link.
func MarkdownLink(address string) (before, after string) {
	return "[", "](<" + strings.NewReplacer("<", "%3C", ">", "%3E", `\`, "%5C").Replace(address) + ">)"
}

// CodeLink writes the address of a link as code, for services that fetch all links.
func CodeLink(address string) (before, after string) {
	return "", " `" + strings.ReplaceAll(address, "`", "%60") + "`"
}

var bareURL = lazyregexp.New(`(?i)\bhttps?://[^\s<>]+`)

// InertURLs writes the URLs of a text as code, which no service fetches.
func InertURLs(escape func(string) string) func(string) string {
	return func(text string) string {
		var out strings.Builder
		at := 0
		for _, found := range bareURL.FindAllStringIndex(text, -1) {
			out.WriteString(escape(text[at:found[0]]))
			_, address := CodeLink(text[found[0]:found[1]])
			out.WriteString(strings.TrimPrefix(address, " "))
			at = found[1]
		}
		out.WriteString(escape(text[at:]))
		return out.String()
	}
}

// WithHosts shows the host of each link whose text does not: a text such as "your bank"
// may lead anywhere.
func (s Styled) WithHosts() (out Styled) {
	at := 0
	for _, sp := range s.Spans {
		if sp.Style != Link || sp.To <= at {
			continue
		}
		host := hostOf(sp.URL)
		if host == "" || strings.Contains(strings.ToLower(s.Text[sp.From:sp.To]), host) {
			continue
		}
		out = out.Plus(s.slice(at, sp.To)).Plus(Styled{Text: " (" + host + ")"})
		at = sp.To
	}
	return out.Plus(s.slice(at, len(s.Text)))
}

// hostOf returns the host of a URL in the form that has no look-alikes.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if ascii, err := idna.ToASCII(host); err == nil {
		return ascii
	}
	return Clean(host)
}
