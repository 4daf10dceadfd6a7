package held

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/fairsem/fairsem"
)

// Lost adds to an error of a connection that it was closed because a permit of the name ended. With TLS the peer may have noticed first,
// and closed it, too: the error is io.EOF then.
//
// The result is a [*net.OpError], like errors of connections that break: by that type lib/pq decides that a connection must not be
// used again.
func Lost(err error, p *fairsem.Permit, name string) error {
	lost := net.OpError{Op: "connection"}
	if broken, ok := err.(*net.OpError); ok { //nolint:errorlint // only the outermost is replaced
		lost, err = *broken, broken.Err
	}
	if !errors.Is(err, net.ErrClosed) {
		err = fmt.Errorf("%w: %w", net.ErrClosed, err)
	}
	lost.Err = fmt.Errorf("%w, because its permit of %q ended: %w", err, name, context.Cause(p.Context()))
	return &lost
}
