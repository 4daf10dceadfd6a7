package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// scripted is a page without a Redis: a test sets the results of its polls, and of queries of single names.
type scripted struct {
	t       *testing.T
	page    *Page
	answers map[string]inspect.Detail
}

func newScripted(t *testing.T) *scripted {
	page := New(Options{Interval: time.Second, Timeout: 3 * time.Second, Names: 1, Log: t.Output()}) // it is not served, so it polls nothing
	s := &scripted{t, page, make(map[string]inspect.Detail)}
	s.page.details.query = func(_ context.Context, name string) (inspect.Detail, error) {
		d := s.answers[name]
		d.Name, d.At = name, time.Now()
		return d, nil
	}
	return s
}

// poll is a poll that has found these.
func (s *scripted) poll(all ...fairsem.Status) {
	now := time.Now()
	s.page.pulse.last.Store(&now)
	s.page.sampler.survey = func(context.Context) (inspect.Survey, error) { return inspect.Survey{Statuses: all, More: true}, nil }
	s.page.sampler.sample(s.t.Context())
}

// view is the picture of a name.
func (s *scripted) view(name string) string {
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/semaphore?"+named(name), nil)
	r.RemoteAddr = here
	return string(s.page.semaphorePicture(r, name)(s.page.sampler.latest())())
}

// exhaust uses up all queries of single names for minutes.
func (s *scripted) exhaust() {
	for range 100 {
		s.page.details.each.of(here).ReserveN(time.Now(), detailBurst/2)
	}
}

// With more names viewed than may be queried, a page said "Live" over figures and holders that were 20 seconds old.
func TestANameThatIsNotQueriedHasTheFiguresOfThePollAndTheAgeOfItsHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		s.answers["gate"] = inspect.Detail{
			Status:  fairsem.Status{Exists: true, Used: 1, Limit: 5},
			Holders: []fairsem.Ticket{{ID: "one", Since: time.Now()}},
		}
		s.poll(fairsem.Status{Name: "gate", Exists: true, Limit: 5})
		time.Sleep(time.Millisecond)
		body := s.view("gate")
		assert.Contains(t, body, `1<span class="of"> / 5</span>`, "the query is newer than the poll")
		assert.NotContains(t, body, " ago: ")

		s.exhaust()
		time.Sleep(20 * time.Second)
		s.poll(fairsem.Status{Name: "gate", Exists: true, Used: 4, Limit: 5, Waiting: 3})
		body = s.view("gate")
		assert.Contains(t, body, `role="status">Live<`)
		assert.Contains(t, body, `4<span class="of"> / 5</span>`)
		assert.Contains(t, body, `<dt>Waiting</dt><dd>3</dd>`)
		assert.Contains(t, body, "Holders and waiters as of 20s ago: too many other names are being queried.")
		assert.Contains(t, body, `title="one"`)

		s.poll() // as of a name that is not polled
		assert.Contains(t, s.view("gate"), "Figures, holders and waiters as of 20s ago: too many other names are being queried.")
	})
}

func TestAnOldAnswerThatANameIsNotThereIsNotReportedAsPresent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		s.poll()
		for _, name := range []string{"new", "none"} {
			assert.Contains(t, s.view(name), "Redis does not know the name")
		}
		s.exhaust()
		time.Sleep(20 * time.Second)
		s.poll(fairsem.Status{Name: "new", Exists: true, Used: 1, Limit: 5})
		body := s.view("new")
		assert.NotContains(t, body, "Redis does not know the name")
		assert.Contains(t, body, `1<span class="of"> / 5</span>`)
		assert.Contains(t, body, "Holders and waiters are not known now: too many other names are being queried.")
		assert.NotContains(t, body, "No holders.")
		body = s.view("none")
		assert.NotContains(t, body, "Redis does not know the name")
		assert.Contains(t, body, "Redis did not know the name 20s ago: too many other names are being queried.")
	})
}

// Beside a true "In use 1 / 5" a name beyond those that are polled had 0 grants a second, a peak of 0 and an empty plot.
func TestANameThatIsNotPolledHasNoRateAndNoPast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		for _, name := range []string{"polled", "beyond"} {
			s.answers[name] = inspect.Detail{Status: fairsem.Status{Exists: true, Used: 1, Limit: 5}}
		}
		for range 2 {
			s.poll(fairsem.Status{Name: "polled", Exists: true, Used: 1, Limit: 5})
			time.Sleep(time.Second)
		}
		const reason = "is not polled, so its grants per second and its past are not known."
		body := s.view("polled")
		assert.Contains(t, body, `<dt>Grants/s</dt><dd>0</dd>`)
		assert.Contains(t, body, `class="plots"`)
		assert.NotContains(t, body, reason)
		body = s.view("beyond")
		assert.Contains(t, body, `1<span class="of"> / 5</span>`)
		assert.Contains(t, body, `<dt>Grants/s</dt><dd>–</dd>`)
		assert.NotContains(t, body, `class="plots"`)
		assert.NotContains(t, body, "peak")
		assert.Contains(t, body, reason)
	})
}

// A name on a primary that had stopped answering was "not polled yet".
func TestANameThatCouldBeReadBeforeIsNotReportedAsNotPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		gate := fairsem.Status{Name: "gate", Exists: true, Used: 1, Limit: 5}
		s.answers["gate"] = inspect.Detail{Status: gate}
		s.poll(gate)
		assert.Contains(t, s.view("gate"), `class="plots"`)
		time.Sleep(20 * time.Second)
		s.poll()
		s.page.details.query = func(context.Context, string) (inspect.Detail, error) {
			return inspect.Detail{}, errors.New("i/o timeout")
		}
		body := s.view("gate")
		assert.NotContains(t, body, "not polled")
		assert.Contains(t, body, "Its grants per second and its past are not known now.")
		assert.Contains(t, body, "as of 20s ago: the last query of this name failed.")
	})
}

// A name whose keys cannot be read was reported as one that Redis does not know.
func TestANameWhoseQueryFailsIsNotReportedAsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		s.poll()
		s.page.details.query = func(context.Context, string) (inspect.Detail, error) {
			return inspect.Detail{}, errors.New("WRONGTYPE")
		}
		body := s.view("gate")
		assert.NotContains(t, body, "Redis does not know the name")
		assert.NotContains(t, body, "WRONGTYPE", "anyone can read the page")
		assert.Contains(t, body, "No answer about it yet: the last query of this name failed.")
	})
}
