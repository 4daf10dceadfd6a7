package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

var (
	errBadName  = errors.New("there can be no semaphore of that name")
	errNotShown = errors.New("this page does not show that name")
)

// checkName returns why a name is refused, before Redis is queried: so the answer is the same whether there is such a name
// or not.
func (p *Page) checkName(name string) error {
	if inspect.CheckName(p.Client, name) != nil {
		return errBadName
	}
	if !p.wanted(name) {
		return fmt.Errorf("%w: only names that match %s", errNotShown, shown(p.Pattern))
	}
	return nil
}

// badStatus is the HTTP status for an error of a request that can never work.
func badStatus(err error) int {
	if errors.Is(err, errNotShown) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
