package offload

import (
	"context"
	"io"

	"github.com/stevedore-bus/stevedore/tools"
)

// ToolUpload is the tool in the metadata of a file that a user sent. The action is the name of
// the file.
const ToolUpload = "upload"

// Attach stores a file in the session of call, under the id of call; the tool and the action of
// call describe it. If the same file was stored before, Attach returns that artifact. The error
// of a store that is full is ErrQuota.
func (o *Offloader) Attach(ctx context.Context, call tools.Call, file *io.SectionReader) (Record, error) {
	return o.put(ctx, newRecord(inSession(call), ContextToolResult), call.IDToken(), file, summarize(ctx, nil))
}
