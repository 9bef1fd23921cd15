package console

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/tools"
)

const deadPerPage = 100

// dead returns a page of dead letters, newest first, without their messages. The parameters
// kind and text select some.
func (c *Console) dead(r *http.Request) (any, error) {
	before, err := sequence(r, "before")
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	letters, next, err := dead.ListPage(r.Context(), c.bus, dead.Query{
		Kind: query.Get("kind"), Text: query.Get("text"), Before: before, Back: true, Limit: deadPerPage,
	})
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
