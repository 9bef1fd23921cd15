package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// numberID begins the text that the SDK gets in place of an id or a progress token that is a number. Nobody can guess it, so that no
// content has it.
var (
	numberID = "number " + rand.Text() + " "
	numbers  = lazyregexp.New(`"` + numberID + `[^"]*"`)
)

// ForSDK returns a message whose ids the SDK does not change: it reads a number as a float64, so that of the nanoseconds
// that some clients number by, the last digits would be lost, and nobody could tell whose answer it is.
func ForSDK(m *Message) json.RawMessage {
	text := m.Text()
	for _, path := range [][]string{{"id"}, {"params", "requestId"}, {"params", "_meta", "progressToken"}} {
		id := m.ID
		if path[0] == "params" { // to look for them in the text would read a large result again
			id = IDOf(Get(m.Params, path[1:]...))
		}
		isNumber := id != "" && strings.Trim(id, "+-.eE0123456789") == ""
		if n, err := strconv.ParseInt(id, 10, 64); isNumber && (err != nil || max(n, -n) > 1<<53 || n == math.MinInt64) {
			text = Set(text, JSON(numberID+id), path...)
		}
	}
	return text
}

// FromSDK returns what the SDK writes with the ids of its client.
func FromSDK(text []byte) []byte {
	if !bytes.Contains(text, []byte(numberID)) {
		return text
	}
	return numbers.ReplaceAllFunc(text, func(id []byte) []byte { return id[1+len(numberID) : len(id)-1] })
}

// WithExactIDs returns the message of a request for the SDK, and the writer for its answer, which has the ids of the client.
func WithExactIDs(w http.ResponseWriter, m *Message) (http.ResponseWriter, []byte) {
	return exactIDs{w}, ForSDK(m)
}

type exactIDs struct{ http.ResponseWriter }

// Write implements io.Writer. The SDK writes each message, or event, at once.
func (w exactIDs) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(FromSDK(p))
	return len(p), err
}

// Unwrap is for http.ResponseController.
func (w exactIDs) Unwrap() http.ResponseWriter { return w.ResponseWriter }
