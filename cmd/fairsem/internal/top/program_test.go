package top

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/exp/teatest/v2"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// feed is a source whose answers come when the test sends them.
type feed struct {
	fake
	names   chan []fairsem.Status
	details chan inspect.Detail

	mu         sync.Mutex
	asked      int // guarded by mu
	flying     int // guarded by mu
	mostFlying int // guarded by mu
}

func newFeed() *feed {
	return &feed{names: make(chan []fairsem.Status), details: make(chan inspect.Detail)}
}

func (f *feed) Survey(ctx context.Context) (inspect.Survey, error) {
	all, err := fed(ctx, f, f.names)
	return inspect.Survey{Statuses: all}, err
}

func (f *feed) Detail(ctx context.Context, _ string) (inspect.Detail, error) {
	return fed(ctx, f, f.details)
}

func fed[T any](ctx context.Context, f *feed, answers chan T) (answer T, err error) {
	f.mu.Lock()
	f.asked++
	f.flying++
	f.mostFlying = max(f.mostFlying, f.flying)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.flying--
		f.mu.Unlock()
	}()
	select {
	case answer = <-answers:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

func start(t *testing.T, from source) *teatest.TestModel {
	t.Helper()
	o := Options{Address: "127.0.0.1:6379", Interval: time.Millisecond, Sort: "name"}
	return teatest.NewTestModel(t, newModel(t.Context(), from, o), teatest.WithInitialTermSize(100, 30))
}

func await(t *testing.T, p *teatest.TestModel, want string) {
	t.Helper()
	teatest.WaitFor(t, p.Output(), func(out []byte) bool { return bytes.Contains(out, []byte(want)) },
		teatest.WithDuration(time.Minute), teatest.WithCheckInterval(time.Millisecond))
}

func leave(t *testing.T, p *teatest.TestModel) model {
	t.Helper()
	p.Type("q")
	return p.FinalModel(t, teatest.WithFinalTimeout(time.Minute)).(model)
}

func TestTheProgramShowsAnswersAsTheyComeAndEndsWithQ(t *testing.T) {
	f := newFeed()
	p := start(t, f)
	f.names <- []fairsem.Status{api, backup}
	await(t, p, "backup")
	f.names <- []fairsem.Status{api, backup, calls}
	await(t, p, "rate 100/1m")
	p.Send(tea.KeyPressMsg{Code: tea.KeyEnter})
	f.details <- inside
	await(t, p, "carol")
	m := leave(t, p)
	assert.Equal(t, "api", m.detail.Name)
}

func TestKeysWorkDuringAQuery(t *testing.T) {
	p := start(t, newFeed())
	await(t, p, "waiting for an answer")
	p.Type("?")
	await(t, p, "GRANTS/S  permits and calls granted a second")
	leave(t, p)
}

func TestAtMostOneQueryIsInFlight(t *testing.T) {
	f := newFeed()
	p := start(t, f)
	f.names <- []fairsem.Status{api, backup}
	for range 300 {
		switch rand.N(4) {
		case 0:
			p.Send(tea.KeyPressMsg{Code: tea.KeyEnter})
		case 1:
			p.Send(tea.KeyPressMsg{Code: tea.KeyEscape})
		case 2:
			p.Send(tea.ResumeMsg{})
		default:
			select {
			case f.names <- []fairsem.Status{api, backup}:
			case f.details <- inside:
			}
		}
	}
	leave(t, p)
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(t, 1, f.mostFlying)
	assert.Greater(t, f.asked, 10)
}
