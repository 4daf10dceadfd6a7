package fairsemhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// body returns the body of a response as one that ends the loan.
func (l *loan) body(resp *http.Response) io.ReadCloser {
	inner := resp.Body
	both, canWrite := inner.(io.ReadWriteCloser)
	if !canWrite || resp.StatusCode != http.StatusSwitchingProtocols { // a body in memory may have Write, too
		return &body{inner, l}
	}
	// net/http does not close a connection that was taken over when the context ends.
	l.stop = context.AfterFunc(l.Permit.Context(), func() { _ = inner.Close() })
	d := &duplex{both, l}
	if half, ok := inner.(writeCloser); ok {
		return struct {
			*duplex
			writeCloser
		}{d, half}
	}
	return d
}

// body is that of a response. Its first error, such as io.EOF, is the end of the request.
type body struct {
	inner io.ReadCloser
	loan  *loan
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = b.loan.explain(err)
		}
		b.loan.end()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.loan.end()
	return b.inner.Close()
}

// duplex is a connection that was taken over with status 101. Its end of reading is not the end of writing.
type duplex struct {
	io.ReadWriteCloser
	loan *loan
}

func (d *duplex) Close() error {
	defer d.loan.end()
	return d.ReadWriteCloser.Close()
}

type writeCloser interface{ CloseWrite() error }
