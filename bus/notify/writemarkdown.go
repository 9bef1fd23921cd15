package notify

import (
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/idna"
)

// writeMarkdown returns the function that writes a text in the Markdown of a service. It
// writes only the marks of package notify: an image would make the reader's program
// fetch any URL that the author of the text chose, and so send him data.
func writeMarkdown(escape func(string) string, showLink func(url string) (before, after string)) func(styled) string {
	escapeText := func(text string) string {
		text = escape(text)
		if before, ok := strings.CutSuffix(text, "!"); ok { // before a link, it makes an image
			return before + `\!`
		}
		return text
	}
	return func(s styled) string {
		return s.markup(func(sp span, inner string) (before, after string) {
			switch sp.style {
			case link:
				return showLink(sp.url)
			case block:
				fence := fenceFor(inner, "```")
				return fence + "\n", "\n" + fence
			case code:
				fence := fenceFor(inner, "`")
				if strings.HasPrefix(inner, "`") || strings.HasSuffix(inner, "`") {
					return fence + " ", " " + fence
				}
				return fence, fence
			case bold:
				return "**", "**"
			case italic:
				return "_", "_"
			case strike:
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

// markdownLink writes a link.
func markdownLink(address string) (before, after string) {
	return "[", "](<" + strings.NewReplacer("<", "%3C", ">", "%3E", `\`, "%5C").Replace(address) + ">)"
}

// codeLink writes the address of a link as code, for services that fetch all links.
func codeLink(address string) (before, after string) {
	return "", " `" + strings.ReplaceAll(address, "`", "%60") + "`"
}

var bareURL = regexp.MustCompile(`(?i)\bhttps?://[^\s<>]+`)

// inertURLs writes the URLs of a text as code, which no service fetches.
func inertURLs(escape func(string) string) func(string) string {
	return func(text string) string {
		var out strings.Builder
		at := 0
		for _, found := range bareURL.FindAllStringIndex(text, -1) {
			out.WriteString(escape(text[at:found[0]]))
			_, address := codeLink(text[found[0]:found[1]])
			out.WriteString(strings.TrimPrefix(address, " "))
			at = found[1]
		}
		out.WriteString(escape(text[at:]))
		return out.String()
	}
}

// withHosts shows the host of each link whose text does not: a text such as "your bank"
// may lead anywhere.
func (s styled) withHosts() (out styled) {
	at := 0
	for _, sp := range s.spans {
		if sp.style != link || sp.to <= at {
			continue
		}
		host := hostOf(sp.url)
		if host == "" || strings.Contains(strings.ToLower(s.text[sp.from:sp.to]), host) {
			continue
		}
		out = out.plus(s.slice(at, sp.to)).plus(styled{text: " (" + host + ")"})
		at = sp.to
	}
	return out.plus(s.slice(at, len(s.text)))
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
	return clean(host)
}
