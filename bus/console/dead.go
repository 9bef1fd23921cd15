package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

const deadPerPage = 100

// dead returns a page of dead letters, newest first, without their messages.
func (c *Console) dead(r *http.Request) (any, error) {
	before, err := sequence(r, "before")
	if err != nil {
		return nil, err
	}
	letters, next, err := dead.ListBack(r.Context(), c.bus, before, deadPerPage)
	if err != nil {
		return nil, err
	}
	return map[string]any{"dead": letters, "next": next}, nil
}

// maxShownMessage is the length of a message that the page shows, in bytes.
const maxShownMessage = 64 << 10

// deadLetter returns one dead letter and the beginning of its message.
func (c *Console) deadLetter(r *http.Request) (any, error) {
	letter, err := c.letterOf(r)
	if err != nil {
		return nil, err
	}
	body, err := letter.Message(r.Context(), c.bus)
	if err != nil {
		return nil, err
	}
	letter.Body, letter.Gzip = nil, nil
	return map[string]any{
		"letter": letter, "size": len(body),
		"message": strings.ToValidUTF8(tools.Excerpt(string(body), maxShownMessage), "\uFFFD"),
	}, nil
}

func (c *Console) letterOf(r *http.Request) (dead.Stored, error) {
	n, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil || n == 0 {
		return dead.Stored{}, badArgument("%q is not the number of a dead letter", tools.Excerpt(r.PathValue("number"), 40))
	}
	return dead.Get(r.Context(), c.bus, n)
}

// changeDeadLetter retries or removes a dead letter.
func (c *Console) changeDeadLetter(r *http.Request) (any, error) {
	letter, err := c.letterOf(r)
	if err != nil {
		return nil, err
	}
	switch action := r.PathValue("action"); action {
	case "retry":
		if err := rpc.RetryCall(r.Context(), c.bus, letter); err != nil {
			return nil, tools.Errorf(codeConflict, "%v", err)
		}
	case "remove":
		if err := dead.Remove(r.Context(), c.bus, letter); err != nil {
			return nil, err
		}
	default:
		return nil, badArgument("unknown action %q; known are retry, remove", tools.Excerpt(action, 40))
	}
	return map[string]string{"number": fmt.Sprint(letter.Number)}, nil
}
