package fairsemnet_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsemnet"
)

type (
	writeCloser interface{ CloseWrite() error }
	readCloser  interface{ CloseRead() error }
)

// methods lists the optional methods that callers of net.Conn test for.
func methods(c net.Conn) (all []string) {
	for name, has := range map[string]bool{
		"SyscallConn":     is[syscall.Conn](c),
		"CloseWrite":      is[writeCloser](c),
		"CloseRead":       is[readCloser](c),
		"ReadFrom":        is[io.ReaderFrom](c),
		"WriteTo":         is[io.WriterTo](c),
		"SetKeepAlive":    is[interface{ SetKeepAlive(bool) error }](c),
		"SetReadBuffer":   is[interface{ SetReadBuffer(int) error }](c),
		"ConnectionState": is[interface{ ConnectionState() tls.ConnectionState }](c),
	} {
		if has {
			all = append(all, name)
		}
	}
	return all
}

func is[T any](c net.Conn) bool {
	_, ok := c.(T)
	return ok
}

// plain has no method but those of net.Conn.
type plain struct{ net.Conn }

type raw struct {
	net.Conn
	SyscallConner
}

type half struct {
	net.Conn
	writeCloser
}

type both struct {
	net.Conn
	writeCloser
	readCloser
}

type rawHalf struct {
	net.Conn
	SyscallConner
	writeCloser
}

type rawBoth struct {
	net.Conn
	SyscallConner
	writeCloser
	readCloser
}

// SyscallConner is syscall.Conn under a name that can be embedded beside net.Conn.
type SyscallConner interface{ syscall.Conn }

func TestConnectionHasTheOptionalMethodsOfTheDialledOneAndNoOther(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(20)
	addr := w.tcp()
	tcp := func() *net.TCPConn {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		return c.(*net.TCPConn)
	}
	unix, err := net.Dial("unix", w.unix(t.TempDir()))
	require.NoError(t, err)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	overTLS, err := tls.Dial("tcp", secure.Listener.Addr().String(), secure.Client().Transport.(*http.Transport).TLSClientConfig)
	require.NoError(t, err)
	a, b, c, d, e, f := tcp(), tcp(), tcp(), tcp(), tcp(), tcp()
	for _, inner := range []net.Conn{
		tcp(), unix, overTLS, plain{a}, raw{b, b}, half{c, c}, both{d, d, d}, rawHalf{e, e, e}, rawBoth{f, f, f, f},
	} {
		dialer := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{
			Dial: func(context.Context, string, string) (net.Conn, error) { return inner, nil },
		}}
		outer := w.dial(dialer, "tcp", addr)
		assert.ElementsMatch(t, methods(inner), methods(outer), "%T", inner)
		if unwraps, ok := outer.(interface{ NetConn() net.Conn }); assert.True(t, ok, "%T", inner) && inner != overTLS {
			assert.Equal(t, inner, unwraps.NetConn())
		}
	}
}

// A protocol without lengths ends with half a connection.
func TestHalfOfAConnectionCanBeClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.dial(&fairsemnet.Dialer{Semaphore: s}, "tcp", w.tcp())
	_, err := io.WriteString(c, "all of it")
	require.NoError(t, err)
	require.NoError(t, c.(writeCloser).CloseWrite())
	echo, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "all of it", string(echo))
	assert.Equal(t, int64(1), w.Status(s).Used, "half open is open")
	require.NoError(t, c.Close())
	w.EventuallyUsed(s, 0)
}

// io.Copy uses ReadFrom and WriteTo; on TCP they are sendfile and splice.
func TestFileIsCopiedOverAConnectionAndBack(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("a file of some length. ", 10_000)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	c := w.dial(&fairsemnet.Dialer{Semaphore: w.Semaphore(1)}, "tcp", w.tcp())
	sent := make(chan error, 1)
	go func() { // ends when all is sent
		_, err := io.Copy(c, file)
		_ = c.(writeCloser).CloseWrite() // the peer would wait
		sent <- err
	}()
	var back strings.Builder
	_, err = io.Copy(&back, c)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	assert.Equal(t, text, back.String())
}
