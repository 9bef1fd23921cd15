package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// The size of a page does not limit the cost of its conversion: 10 KB of open tags make a tree of
// gigabytes, and text full of brackets takes quadratic time. So a process with the limits of
// limited.HTML converts it.
const maxHTML = 4 << 20 // bytes of a page; the rest is not converted

// markdownRequest asks ServeMarkdown to convert a page, whose bytes follow.
type markdownRequest struct {
	URL string        `json:"url"`
	CPU time.Duration `json:"cpu"`
}

// convert writes the Markdown of a page to dst. The text has the page from its start at each call.
func (w *web) convert(ctx context.Context, session string, dst *tools.Output, p *page) error {
	req := markdownRequest{p.url.String(), limited.HTML.CPU(min(p.body.Size(), maxHTML))}
	var markdown string
	rest := 0
	err := w.ws.cfg.Pool.Do(ctx, session, req.CPU, func(ctx context.Context) error {
		text, _, err := p.text()
		if err != nil {
			return err
		}
		input := io.LimitReader(text, maxHTML)
		if command := w.ws.cfg.Pool.Command(limited.HTML); len(command) > 0 {
			markdown, err = limited.Ask[string](ctx, command, req, input)
		} else {
			markdown, err = convertPage(req, input)
		}
		if err == nil {
			rest, _ = text.Read(make([]byte, 1))
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return tools.Errorf(tools.CodeToolFailed, "the page is too complex to convert (%v); fetch it with raw set to true", err)
	}
	if _, err := io.WriteString(dst, markdown); err != nil {
		return err
	}
	if rest > 0 {
		dst.Note(fmt.Sprintf("[cut: the first %d MiB of the HTML were converted; raw returns all of it]", maxHTML>>20))
	}
	return nil
}

// ServeMarkdown converts one page for web_fetch, which started this process with the command line
// of Config.Pool. It bounds the process, so it is for a main that does nothing else.
func ServeMarkdown(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := limited.Serve(limited.HTML); err != nil {
		return fmt.Errorf("serve Markdown: %w", err)
	}
	return limited.Answer(stdin, stdout, func(req markdownRequest, page io.Reader) (string, error) {
		_, cancel := limited.Within(ctx, req.CPU) // the system ends a conversion
		defer cancel()
		return convertPage(req, page)
	})
}

// convertPage returns the Markdown of a page.
func convertPage(req markdownRequest, in io.Reader) (string, error) {
	where, err := url.Parse(req.URL)
	if err != nil {
		return "", fmt.Errorf("parse the URL of the page: %w", err)
	}
	doc, err := html.Parse(in)
	if err != nil {
		return "", fmt.Errorf("parse HTML: %w", err)
	}
	tidy(doc, where)
	conv := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip),
			commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip)),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), table.WithHeaderPromotion(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve)),
	))
	for _, name := range []string{"audio", "canvas", "math", "object", "select", "svg", "template", "video"} {
		conv.Register.TagType(name, converter.TagTypeRemove, converter.PriorityStandard)
	}
	markdown, err := conv.ConvertNode(doc)
	if err != nil {
		return "", fmt.Errorf("convert HTML: %w", err)
	}
	return string(bytes.ToValidUTF8(bytes.TrimSpace(markdown), nil)), nil
}

// tidy makes the links of a page absolute, removes those that a reader of text cannot follow, such
// as scripts, puts the description in the place of an image without an address, and removes the
// spans of cells that are too large.
func tidy(doc *html.Node, where *url.URL) {
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		alt := ""
		for i := len(n.Attr) - 1; i >= 0; i-- {
			attr, keep := &n.Attr[i], true
			switch attr.Key {
			case "href", "src":
				u, err := where.Parse(strings.TrimSpace(attr.Val))
				if keep = err == nil && attr.Val != "" && slices.Contains([]string{"http", "https", "mailto"}, u.Scheme); keep {
					attr.Val = u.String()
				}
				if keep && n.Data == "base" {
					where = u
				}
			case "colspan", "rowspan":
				keep = len(attr.Val) < 3
			case "alt":
				alt = attr.Val
			}
			if !keep {
				n.Attr = slices.Delete(n.Attr, i, i+1)
			}
		}
		if n.Data == "img" && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "src" }) {
			n.Type, n.Data = html.TextNode, alt
		}
	}
}

// titleOf returns the title of an HTML page if it is near the start.
func titleOf(page io.Reader) string {
	z := html.NewTokenizer(io.LimitReader(page, 256<<10))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken:
			name, _ := z.TagName()
			switch string(name) {
			case "body", "svg": // an image has a title too
				return ""
			case "title":
				if z.Next() != html.TextToken {
					return ""
				}
				return strings.Join(strings.Fields(string(z.Text())), " ")
			}
		}
	}
}
