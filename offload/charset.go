package offload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

// charset returns the encoding of the artifact's bytes, or "" if it is UTF-8. The media type of an artifact
// names it. The artifact keeps its bytes, and the reader decodes them.
func (rec Record) charset() string {
	_, params, _ := mime.ParseMediaType(rec.MediaType)
	if rec.Type == TypeBinary || !charset.Known(params["charset"]) {
		return ""
	}
	return params["charset"]
}

// inCharset returns a media type with another charset.
func inCharset(mediaType, name string) string {
	media, _, _ := strings.Cut(mediaType, ";")
	return media + "; charset=" + name
}

// isMedia reports whether a media type is one of others, in any charset.
func isMedia(media string, others ...string) bool {
	media, _, _ = strings.Cut(media, ";")
	return slices.ContainsFunc(others, func(other string) bool {
		other, _, _ = strings.Cut(other, ";")
		return other == media
	})
}

// decode returns the UTF-8 of a text. The caller closes it. A text of more than 1 MiB is in a
// file meanwhile.
func decode(ctx context.Context, src io.ReaderAt, size int64, name string) (blockContent, error) {
	out := tools.NewOutput(tools.OutputLimits{Total: 4 * size})
	decoded := charset.NewReader(io.NewSectionReader(src, 0, size), name)
	indexer, block := index.NewIndexer(), make([]byte, index.BlockSize)
	for {
		n, err := io.ReadFull(decoded, block)
		if n > 0 {
			indexer.Block(block[:n])
			if _, writeErr := out.Write(block[:n]); writeErr != nil {
				err = writeErr
			}
		}
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			x, _ := indexer.Finish()
			return blocks.NewContent(out, x), nil
		case err == nil:
			err = ctx.Err()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("decode %s: %w", name, err), out.Close())
		}
	}
}
