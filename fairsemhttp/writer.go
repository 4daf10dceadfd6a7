package fairsemhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// exchange is a request that is being handled, with its permit.
type exchange struct {
	scope  held.Scope
	writer writer
	permit *fairsem.Permit // nil: it has none
	name   string
	passed atomic.Bool // the permit belongs to a hijacked connection
}

// finish is called when the handler has returned, or the request was refused.
func (e *exchange) finish() {
	e.scope.End()
	if e.permit != nil && !e.passed.Load() {
		held.Release(e.permit)
	}
}

// wrap returns a ResponseWriter that passes the permit to the connection if that is hijacked. Where no connection can be, as with
// HTTP/2, it is w itself.
func (e *exchange) wrap(w http.ResponseWriter) http.ResponseWriter {
	if !canHijack(w) {
		return w
	}
	e.writer = writer{w, e}
	if _, flushes := w.(http.Flusher); flushes {
		return flusher{&e.writer}
	}
	return &e.writer
}

type unwrapper interface{ Unwrap() http.ResponseWriter }

// canHijack reports whether Hijack of a ResponseController for w can succeed.
func canHijack(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Hijacker:
			return true
		case unwrapper:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

type writer struct {
	http.ResponseWriter
	exchange *exchange
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack returns a connection that holds the permit until it is closed.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return conn, buffered, err
	}
	w.exchange.passed.Store(true)
	return held.Conn(conn, w.exchange.permit, w.exchange.name, false), buffered, nil
}

// ReadFrom implements io.ReaderFrom, for io.Copy; on TCP it is sendfile.
func (w *writer) ReadFrom(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) }

func (w *writer) WriteString(s string) (int, error) { return io.WriteString(w.ResponseWriter, s) }

// CloseNotify is the method of an interface that net/http has deprecated, and that gin calls without asking for it. From a server that
// has none, nothing comes.
func (w *writer) CloseNotify() <-chan bool {
	if inner, has := w.ResponseWriter.(interface{ CloseNotify() <-chan bool }); has {
		return inner.CloseNotify()
	}
	return nil
}

// flusher is a writer whose inner one is an http.Flusher.
type flusher struct{ *writer }

func (w flusher) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// FlushError is the method that an http.ResponseController uses.
func (w flusher) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }
