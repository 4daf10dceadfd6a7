package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	"golang.org/x/time/rate"
)

// newJournal is for who changed what, when and from where, and who tried to.
func newJournal(to io.Writer) *log.Logger {
	return log.New(to, "fairsem: ", log.Ldate|log.Ltime|log.LUTC|log.Lmsgprefix)
}

// checkToken is login.check, with a record of a token that is wrong. Who sends more of them than are answered fills no
// disk with them.
func (p *Page) checkToken(r *http.Request, token string) error {
	err := p.login.check(r.RemoteAddr, token)
	if errors.Is(err, errWrongToken) {
		p.journal.Printf("wrong token from %s", origin(r))
	}
	return err
}

// origin is where a request comes from: the other end of the connection, and what that, or whoever asks, claims.
func origin(r *http.Request) string {
	if claim := r.Header.Get("X-Forwarded-For"); claim != "" {
		return fmt.Sprintf("%s (X-Forwarded-For: %q)", r.RemoteAddr, shown(claim))
	}
	return r.RemoteAddr
}

// who tells one session from another, and is of no use to who reads it.
func (s *session) label() string {
	sum := sha256.Sum256([]byte(s.id))
	return "session " + hex.EncodeToString(sum[:4])
}

// String is for the journal.
func (d action) String() string {
	switch {
	case d.id != "":
		return fmt.Sprintf("%s %q of %q", d.verb, shown(d.id), shown(d.name))
	case d.verb == "resize":
		return fmt.Sprintf("resize %q to %d", shown(d.name), d.limit)
	}
	return fmt.Sprintf("%s %q", d.verb, shown(d.name))
}

// sparing writes what there is time for, and drops the rest: what clients do wrong they can do often.
type rateLimited struct {
	to    io.Writer
	limit *rate.Limiter
}

func (s rateLimited) Write(line []byte) (int, error) {
	if !s.limit.Allow() {
		return len(line), nil
	}
	return s.to.Write(line)
}
