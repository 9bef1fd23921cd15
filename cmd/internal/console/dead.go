package console

import (
	"context"
	"errors"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// deadLetter is a dead letter and the beginning of its message.
type deadLetter struct {
	Letter  dead.Stored `json:"letter"`
	Size    int         `json:"size"`
	Message string      `json:"message"`
}

// maxShownMessage is the length of a message that the page shows, in bytes.
const maxShownMessage = 64 << 10

var showDead = rpc.Define("showDeadLetter", "", "Show a dead letter.", func(ctx context.Context, env rpc.Env, in struct {
	Number uint64 `json:"number"`
}) (l deadLetter, err error) {
	if l.Letter, err = dead.Get(ctx, env.Bus, in.Number); err != nil {
		return l, err
	}
	body, err := l.Letter.Message(ctx, env.Bus)
	if errors.Is(err, dead.ErrNoBody) { // the reason is there
		body, err = []byte(err.Error()), nil
	}
	l.Letter.Body, l.Letter.Gzip = nil, nil
	l.Size, l.Message = len(body), strings.ToValidUTF8(tools.Excerpt(string(body), maxShownMessage), "\uFFFD")
	return l, err
})
