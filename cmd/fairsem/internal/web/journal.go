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

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// newJournal logs each change and each attempt: its time, its address and the name.
func newJournal(to io.Writer) *log.Logger {
	return log.New(to, "fairsem: ", log.Ldate|log.Ltime|log.LUTC|log.Lmsgprefix)
}

// checkToken is login.check, and logs a wrong token. The number of answered tries bounds the log, which says where it has a gap.
func (p *Page) checkToken(r *http.Request, token string) error {
	err := p.login.check(r.RemoteAddr, token)
	switch {
	case errors.Is(err, errWrongToken):
		p.journal.Printf("wrong token from %s", origin(r))
	case errors.Is(err, errTooOften) && p.login.drops.of(r.RemoteAddr).Allow():
		p.journal.Printf("more wrong tokens from %s, which are not logged one by one", origin(r))
	}
	return err
}

// reportUnread logs once why the tenants of a name cannot be read: metrics have no text for it.
func (p *Page) reportUnread(of map[string]inspect.Tenants) {
	for name, t := range of {
		if t.Err != nil {
			p.unread.Do(func() {
				p.journal.Printf("the tenants of %s cannot be read, so metrics have them together: %s", quoted(name), shown(t.Err.Error()))
			})
			return
		}
	}
}

// origin is where a request comes from: the other end of the connection, and the claim of X-Forwarded-For.
func origin(r *http.Request) string {
	if claim := r.Header.Get("X-Forwarded-For"); claim != "" {
		return fmt.Sprintf("%s (X-Forwarded-For: %s)", r.RemoteAddr, quoted(claim))
	}
	return r.RemoteAddr
}

// label distinguishes sessions in the log, and reveals no secret.
func (s *session) label() string {
	sum := sha256.Sum256([]byte(s.id))
	return "session " + hex.EncodeToString(sum[:4])
}

// String is for the journal.
func (d action) String() string {
	switch {
	case d.id != "":
		return fmt.Sprintf("%s %s of %s", d.verb, quoted(d.id), quoted(d.name))
	case d.verb == "resize":
		return fmt.Sprintf("resize %s to %d", quoted(d.name), d.limit)
	}
	return fmt.Sprintf("%s %s", d.verb, quoted(d.name))
}

// quoted is a text from an untrusted source in the journal. Names and ids are too short to be cut, so no two of them are the same.
func quoted(s string) string { return text.Quote(s[:min(len(s), longText*4)]) }

// rateLimited writes only so much, and drops the rest: clients can repeat their errors without limit.
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
