package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

const deadPerPage = 100

// dead returns a page of dead letters, newest first, without their messages.
func (c *Console) dead(r *http.Request) (any, error) {
	before, err := strconv.ParseUint(orZero(r.URL.Query().Get("before")), 10, 64)
	if err != nil {
		return nil, badArgument("before: want a number")
	}
	letters, next, err := c.bus.DeadLettersBack(r.Context(), before, deadPerPage)
	if err != nil {
		return nil, err
	}
	if letters == nil {
		letters = []bus.StoredDeadLetter{}
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
	body, err := c.bus.DeadMessage(r.Context(), letter.DeadLetter)
	if err != nil {
		return nil, err
	}
	letter.Body, letter.Gzip = nil, nil
	return map[string]any{
		"letter": letter, "size": len(body),
		"message": strings.ToValidUTF8(tools.Excerpt(string(body), maxShownMessage), "\uFFFD"),
	}, nil
}

func (c *Console) letterOf(r *http.Request) (bus.StoredDeadLetter, error) {
	n, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil || n == 0 {
		return bus.StoredDeadLetter{}, badArgument("%q is not the number of a dead letter", tools.Excerpt(r.PathValue("number"), 40))
	}
	return c.bus.DeadLetter(r.Context(), n)
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
		if err := c.bus.RemoveDeadLetter(r.Context(), letter); err != nil {
			return nil, err
		}
	default:
		return nil, badArgument("unknown action %q; known are retry, remove", tools.Excerpt(action, 40))
	}
	return map[string]string{"number": fmt.Sprint(letter.Number)}, nil
}
