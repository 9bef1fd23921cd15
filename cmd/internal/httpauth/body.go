package httpauth

import (
	"io"
	"net/http"
	"time"
)

// bodyGrace is how long a body may take, and in addition a second for each bodyRate bytes. Only
// tests change it.
var bodyGrace = 30 * time.Second

const bodyRate = 16 << 10

// withBodyDeadline ends requests whose body arrives too slowly. This includes bodies that the
// handler does not read: the server reads them before it responds.
func withBodyDeadline(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			b := &timedBody{ReadCloser: r.Body, controller: http.NewResponseController(w), start: time.Now()}
			b.extend()
			r.Body = b
		}
		h.ServeHTTP(w, r)
	})
}

type timedBody struct {
	io.ReadCloser
	controller *http.ResponseController
	start      time.Time
	n          int64
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	if err == io.EOF {
		// The server goes on reading, to notice that the client is gone.
		_ = b.controller.SetReadDeadline(time.Time{})
	} else {
		b.extend()
	}
	return n, err
}

func (b *timedBody) extend() {
	_ = b.controller.SetReadDeadline(b.start.Add(bodyGrace + time.Duration(b.n)*time.Second/bodyRate)) // every connection has deadlines
}
