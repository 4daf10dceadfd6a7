package fairsem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Events that occur at unexpected moments or in unexpected orders, and their cost.

// recordEvents records the events of a client on a wire. The returned function returns those since its last call.
func recordEvents(c *Client) (reported func() []string) {
	var mu sync.Mutex
	var all []string
	c.events = newEvents(func(ev Event) {
		if _, ok := ev.(DisconnectedEvent); ok {
			return // a wire has no subscriptions
		}
		text := strings.TrimSuffix(fmt.Sprintf("%T", ev)[len("fairsem."):], "Event")
		for _, name := range []string{"By", "Verb", "Err"} {
			if f := reflect.ValueOf(ev).FieldByName(name); f.IsValid() && !f.IsZero() {
				text += fmt.Sprintf(" %v", f)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, text)
	}, nil, c.goroutines)
	return func() (since []string) {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		since, all = all, nil
		return since
	}
}

// acquires calls Acquire in the background.
func acquires(ctx context.Context, c *Client, o CallOptions) <-chan outcome {
	s := &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}, opts: &o}
	done := make(chan outcome, 1)
	go func() { // ends with Acquire
		p, err := s.Acquire(ctx, 1)
		done <- outcome{p, err}
	}()
	return done
}

// slowCaller is the context of a call that is delayed between the outcome and the check of the context.
type slowCaller struct {
	context.Context
	checks    atomic.Int64
	meanwhile func() error
}

func (s *slowCaller) Err() error {
	if s.checks.Add(1) == 2 { // the first check is before anything is sent
		return s.meanwhile()
	}
	return nil
}

// The caller never received this permit, so there is neither a grant nor a release to report.
func TestGrantThatCoincidesWithTheEndOfTheContextIsNotReported(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		reported := recordEvents(c)
		done := acquires(&slowCaller{Context: t.Context(), meanwhile: func() error { return context.Canceled }}, c, CallOptions{})
		w.carries("acquire a: 1").grantAll(10)
		assert.ErrorIs(t, (<-done).err, context.Canceled)
		w.carries("release a: 1").grantAll(0)
		assert.Equal(t, []string{`NotAcquired fairsem: acquire "a": context canceled`}, reported())
	})
}

func TestPermitThatNearlyExpiresBeforeItsCallerGetsItIsReportedAsPositionLost(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		reported := recordEvents(c)
		stall := func() error {
			time.Sleep(2500 * time.Millisecond) // of 2700
			return nil
		}
		done := acquires(&slowCaller{Context: t.Context(), meanwhile: stall}, c, CallOptions{NoRefresh: true})
		w.carries("acquire a: 1").grantAll(10)
		assert.Empty(t, reported())
		time.Sleep(2500 * time.Millisecond)
		assert.Equal(t, []string{"PositionLost"}, reported())
		for f := w.next(); f != nil; f = w.next() { // the release and the new acquire: in one call or in two
			f.grantAll(20)
		}
		require.NoError(t, (<-done).err)
		assert.Equal(t, []string{"Granted at once"}, reported())
	})
}

func TestGrantEventSaysHowTheClientLearnedOfTheGrant(t *testing.T) {
	t.Parallel()
	const held, waits = int64(protocol.Held), int64(protocol.Waiting)
	for name, test := range map[string]struct {
		options CallOptions
		by      GrantedBy
		arrive  func(c *Client, w *wire)
	}{
		"at once, after a retry": {by: GrantedAtOnce, arrive: func(_ *Client, w *wire) {
			w.carries("acquire a: 1").breaks()
			time.Sleep(lastRetry)
			w.carries("acquire a: 1").answers(1, -1, 0, 1, held, 60)
		}},
		"message": {by: GrantedByMessage, arrive: func(c *Client, w *wire) {
			w.carries("acquire a: 1").answers(1, -1, 0, 1, waits, 50)
			c.woken("a", 1, []protocol.Grant{grantAt(1, 50, 60)})
		}},
		"message before the answer": {by: GrantedByMessage, arrive: func(c *Client, w *wire) {
			f := w.carries("acquire a: 1")
			c.woken("a", 1, []protocol.Grant{grantAt(1, 50, 60)})
			f.answers(1, -1, 0, 1, waits, 50)
		}},
		"message, then confirmed": {options: CallOptions{NoRefresh: true}, by: GrantedByMessage, arrive: func(c *Client, w *wire) {
			w.carries("acquire a: 1").answers(1, -1, 0, 1, waits, 50)
			c.woken("a", 1, []protocol.Grant{grantAt(1, 50, 60)})
			w.carries("refresh a: 1").answers(1, -1, 0, 1, held, 60)
		}},
		"reply": {by: GrantedByReply, arrive: func(c *Client, w *wire) {
			w.carries("acquire a: 1").answers(1, -1, 0, 1, waits, 50)
			try, err := c.ask(background, &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}, 1, false, time.Now())
			assert.NoError(w.t, err)
			w.carries(fmt.Sprintf("acquire a: %d", try.seq)).answers(1, -1, 0, 1, int64(protocol.Refused), 0, 1, 50, 60)
		}},
		"refresh": {by: GrantedByRefresh, arrive: func(_ *Client, w *wire) {
			w.carries("acquire a: 1").answers(1, -1, 0, 1, waits, 50)
			time.Sleep(time.Second + time.Millisecond)
			w.carries("refresh a: 1").answers(1, -1, 0, 1, held, 60)
		}},
		"refresh, after a forgery": {by: GrantedByRefresh, arrive: func(c *Client, w *wire) {
			f := w.carries("acquire a: 1")
			c.woken("a", 1, []protocol.Grant{grantAt(1, 666, 667)})
			f.answers(1, -1, 0, 1, waits, 50)
			time.Sleep(time.Second + time.Millisecond)
			w.carries("refresh a: 1").answers(1, -1, 0, 1, held, 60)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
				reported := recordEvents(c)
				done := acquires(t.Context(), c, test.options)
				test.arrive(c, w)
				require.NoError(t, (<-done).err)
				all := reported()
				assert.Equal(t, "Granted "+string(test.by), all[len(all)-1])
				assert.Equal(t, test.by != GrantedAtOnce, all[0] == "WaitStarted", all)
			})
		})
	}
}

func TestEndOfAPermitIsReportedOnceWhateverDetectsIt(t *testing.T) {
	t.Parallel()
	type ending func(t *testing.T, a *ticket, w *wire)
	refreshed := func(state protocol.State, more ...int64) ending {
		return func(_ *testing.T, _ *ticket, w *wire) {
			time.Sleep(time.Second + time.Millisecond)
			w.carries("refresh a: 1").answers(append([]int64{1, -1, 0, 1, int64(state), 10}, more...)...)
		}
	}
	for name, end := range map[string]struct {
		how      []ending
		reported string
	}{
		"the clock, noticed by the caller first": {[]ending{
			func(_ *testing.T, a *ticket, _ *wire) { a.hold.end(errOverdue) },
			refreshed(protocol.Held),
		}, "Lost fairsem: permit lost: it was not renewed in time"},
		"the clock, noticed by the caller, who releases it": {[]ending{
			func(_ *testing.T, a *ticket, _ *wire) { a.hold.end(errOverdue) },
			func(t *testing.T, a *ticket, _ *wire) { assert.ErrorIs(t, a.permit().Release(background), ErrLost) },
		}, "Lost fairsem: permit lost: it was not renewed in time"},
		"a renewal that does not find it": {[]ending{
			refreshed(protocol.Gone),
		}, "Lost fairsem: permit lost: " + errMissing.Error()},
		"a renewal that does not find it, while the caller releases it": {[]ending{
			func(_ *testing.T, a *ticket, _ *wire) { a.hold.end(ErrReleased) },
			refreshed(protocol.Gone),
			func(_ *testing.T, _ *ticket, w *wire) {
				w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
			},
			func(t *testing.T, a *ticket, _ *wire) { assert.ErrorIs(t, a.permit().Release(background), ErrLost) },
		}, "Lost fairsem: permit lost: " + errMissing.Error()},
		"the clock, while the caller releases it": {[]ending{
			func(t *testing.T, a *ticket, w *wire) {
				time.Sleep(time.Second + time.Millisecond)
				f := w.carries("refresh a: 1")
				a.hold.end(ErrReleased) // the first half of Release
				time.Sleep(1700 * time.Millisecond)
				f.breaks()
				for f := w.next(); f != nil; f = w.next() {
					f.grantAll(0)
				}
				assert.NoError(t, a.permit().Release(background))
			},
		}, "Released"},
		"a renewal whose reply comes after the release began": {[]ending{
			func(_ *testing.T, a *ticket, w *wire) {
				time.Sleep(time.Second + time.Millisecond)
				f := w.carries("refresh a: 1")
				a.hold.end(ErrReleased)
				a.state.leave(a)
				f.answers(1, -1, 0, 1, int64(protocol.Gone), 0)
			},
			func(t *testing.T, a *ticket, _ *wire) { assert.ErrorIs(t, a.permit().Release(background), ErrLost) },
		}, "Lost fairsem: permit lost: " + errMissing.Error()},
		"a renewal that finds it in the queue": {[]ending{
			refreshed(protocol.Waiting),
		}, "Lost fairsem: permit lost: " + errForged.Error()},
		"no reply": {[]ending{
			func(_ *testing.T, _ *ticket, w *wire) {
				time.Sleep(2700 * time.Millisecond)
				for f := w.next(); f != nil; f = w.next() {
					f.breaks()
				}
			},
		}, "Lost fairsem: permit lost: no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
				reported := recordEvents(c)
				done := acquires(t.Context(), c, CallOptions{})
				w.carries("acquire a: 1").grantAll(10)
				a := (<-done).permit.ticket
				for _, step := range end.how {
					step(t, a, w)
				}
				synctest.Wait()
				for f := w.next(); f != nil; f = w.next() { // the releases that remain
					f.grantAll(0)
				}
				time.Sleep(4 * time.Second)
				var ofPermit []string
				for _, text := range reported() {
					if !strings.HasPrefix(text, "CallFailed") {
						ofPermit = append(ofPermit, text)
					}
				}
				assert.Equal(t, []string{"Granted at once", end.reported}, ofPermit)
			})
		})
	}
}

// Events cost nothing in a client without an observer and without a logger at this level.
func TestUnobservedEventsCostNoAllocation(t *testing.T) {
	info := slog.New(slog.NewTextHandler(io.Discard, nil))
	for name, e := range map[string]*events{
		"no observer": newEvents(nil, nil, nil), "a logger at Info": newEvents(nil, info, nil),
	} {
		v := &nameState{host: &host{events: e, clock: clock.New()}, name: "a"}
		a := &ticket{state: v, opts: new(CallOptions), id: "id", weight: 1, numbers: []int64{0}, values: background, observed: e.wants(background)}
		a.hold.begin(v.host.clock, time.Now(), time.Now(), window{sent: v.host.clock.Now(), ttl: time.Hour})
		failure := errors.New("failure")
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			if e.begin() {
				defer e.end()
			}
			assert.False(t, e.wants(background))
			a.reportWaiting(e, time.Now())
			a.hold.claim(nil)
			a.reportGranted(e)
			a.reportNotAcquired(e, "a", failure)
			a.reportLost(e, v.host.clock)
			a.reported = false
			a.reportEnd(e, v.host.clock, nil)
		}), name)
		assert.True(t, a.hold.isTaken())
	}
	var none *events
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		none.callFailed("a", "refresh", io.EOF)
		none.disconnected("channel", "", io.EOF)
		none.reconnected("channel", "", time.Second)
		none.unreturned("a", "t", "release", 1, io.EOF)
	}))
	none.close()
}

// A struct with a function cannot be written as JSON, but configurations are.
func TestOptionsWithAnObserverCanBeWrittenAsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Options{TTL: 3, Observer: func(Event) {}, Logger: slog.Default()})
	require.NoError(t, err)
	var back Options
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, Options{TTL: 3}, back)
}

// The table in the comment of Event matches the records.
func TestTableOfEventsMatchesTheRecords(t *testing.T) {
	t.Parallel()
	want := make(map[string][2]string)
	for _, ev := range []Event{
		WaitStartedEvent{}, PositionLostEvent{}, GrantedEvent{}, AllowedEvent{}, NotAcquiredEvent{}, ReleasedEvent{}, LostEvent{}, CallFailedEvent{}, DisconnectedEvent{}, ReconnectedEvent{}, UnreturnedEvent{},
	} {
		h := ev.headline()
		want[fmt.Sprintf("%T", ev)[len("fairsem."):]] = [2]string{h.level.String(), h.message}
	}
	failed := ReleasedEvent{Err: io.EOF}.headline()
	want["  with an Err"] = [2]string{failed.level.String(), failed.message}

	source, err := os.ReadFile("observe.go")
	require.NoError(t, err)
	got := make(map[string][2]string)
	for _, row := range regexp.MustCompile(`(?m)^//\t(\S+|  with an Err) +(Debug|Info|Warn) +(fairsem: .*)$`).FindAllStringSubmatch(string(source), -1) {
		got[row[1]] = [2]string{map[string]string{"Debug": "DEBUG", "Info": "INFO", "Warn": "WARN"}[row[2]], row[3]}
	}
	assert.Equal(t, want, got)
}
