package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

// markdown converts HTML to Markdown.
//
// The size of the input does not limit the cost of parsing HTML into a tree and of
// rendering the tree: 10 KB of open tags and 100 KB of paragraphs make a tree of
// gigabytes, one cell may span a hundred million columns, and text full of brackets
// takes quadratic time. So type pieces reads tokens, keeps the tags that exist in
// Markdown, nests them correctly, and passes documents of limited size and depth to the
// converter. convert checks ctx between them.
type markdown struct {
	conv *converter.Converter
}

func newMarkdown() *markdown {
	return &markdown{conv: converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip)),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), table.WithHeaderPromotion(true)),
	))}
}

// convert writes the Markdown of page to dst. where is the URL of the page, to resolve
// relative links.
func (m *markdown) convert(ctx context.Context, dst io.Writer, page io.Reader, where *url.URL) error {
	first := true
	p := &pieces{base: where, emit: func(piece []byte) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		md, err := m.render(piece)
		if md = bytes.TrimSpace(md); err != nil || len(md) == 0 {
			return err
		}
		if !first {
			md = append([]byte("\n\n"), md...)
		}
		first = false
		_, err = dst.Write(md)
		return err
	}}
	z := html.NewTokenizer(page)
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if err := z.Err(); err != io.EOF {
				return err
			}
			return p.flush(false)
		}
		if err := p.token(z, kind); err != nil {
			return err
		}
	}
}

func (m *markdown) render(piece []byte) ([]byte, error) {
	doc, err := html.Parse(bytes.NewReader(piece))
	if err != nil {
		return nil, fmt.Errorf("parse HTML: %w", err)
	}
	return m.conv.ConvertNode(doc)
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
