package otlp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/fairsemotel"
	"github.com/fairsem/fairsem/internal/protocol"
)

// export sends the metrics and spans of the program to a collector. stop sends the rest: call it after all clients are closed.
func export(ctx context.Context) (stop func(context.Context) error, err error) {
	metrics, err := otlpmetricgrpc.New(ctx)
	if err != nil {
		return nil, err
	}
	spans, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, err
	}
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)))
	tracers := trace.NewTracerProvider(trace.WithBatcher(spans))
	otel.SetMeterProvider(meters)
	otel.SetTracerProvider(tracers)
	return func(ctx context.Context) error { return errors.Join(meters.Shutdown(ctx), tracers.Shutdown(ctx)) }, nil
}

// program is one that exports, and an operator who interferes with it.
type program struct {
	observer         *fairsemotel.Observer
	client, operator *fairsem.Client
	network          *network      // of the client
	direct           *redis.Client // of the operator
	stop             func(context.Context) error
}

const (
	limit = 3
	jobs  = "jobs"  // a semaphore of the limit
	other = "other" // one more
	ttl   = 2 * time.Second
)

func startProgram(ctx context.Context, server string) (*program, error) {
	redis.SetLogger(&logging.VoidLogger{}) // it logs each dial during an outage
	stop, err := export(ctx)
	if err != nil {
		return nil, err
	}
	observer, err := fairsemotel.New(fairsemotel.Options{})
	if err != nil {
		return nil, err
	}
	p := &program{observer: observer, network: &network{open: make(map[net.Conn]bool)}}
	rdb := redis.NewClient(&redis.Options{Addr: server, Dialer: p.network.dial})
	direct := redis.NewClient(&redis.Options{Addr: server})
	p.direct = direct
	if p.client, err = fairsem.New(rdb, fairsem.Options{TTL: ttl, Observer: observer.Observe}); err != nil {
		return nil, err
	}
	if p.operator, err = fairsem.New(direct, fairsem.Options{TTL: ttl}); err != nil {
		return nil, err
	}
	p.stop = func(ctx context.Context) error {
		closed := p.client.Close()
		if errors.Is(closed, fairsem.ErrUnavailable) {
			closed = nil // permits that the outage kept it from releasing expire
		}
		return errors.Join(p.operator.Close(), closed, rdb.Close(), direct.Close(), stop(ctx))
	}
	return p, nil
}

// run has everything happen that is counted.
func (p *program) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // only a hang takes so long
	defer cancel()
	ctx, request := otel.Tracer("program").Start(ctx, "request")
	defer request.End()
	sem, err := p.client.Semaphore(jobs, limit)
	if err != nil {
		return err
	}
	for range 20 {
		if err := sem.Do(ctx, 1, func(context.Context) error { return nil }); err != nil {
			return err
		}
	}
	if err := p.refuseAndEvict(ctx, sem); err != nil {
		return fmt.Errorf("refuse and evict: %w", err)
	}
	if err := p.losePosition(ctx, sem); err != nil {
		return fmt.Errorf("lose a position: %w", err)
	}
	return p.releaseUnheard(ctx)
}

// refuseAndEvict has a call refused and a permit lost.
func (p *program) refuseAndEvict(ctx context.Context, sem *fairsem.Semaphore) error {
	held, err := sem.Acquire(ctx, limit)
	if err != nil {
		return err
	}
	if _, err := sem.TryAcquire(ctx, 1); !errors.Is(err, fairsem.ErrNotAcquired) {
		return fmt.Errorf("a call above the limit: %w", err)
	}
	if err := p.operator.Inspect(jobs).Evict(ctx, held.ID()); err != nil {
		return err
	}
	<-held.Context().Done()
	return nil
}

// losePosition has a call in the queue lose its position, and join it again.
func (p *program) losePosition(ctx context.Context, sem *fairsem.Semaphore) error {
	held, err := sem.Acquire(ctx, limit)
	if err != nil {
		return err
	}
	waiting := make(chan error, 1)
	go func() { waiting <- sem.Do(ctx, 1, func(context.Context) error { return nil }) }() // ends when held is released
	first, err := p.awaitWaiter(ctx, "")
	if err != nil {
		return err
	}
	if err := p.direct.ZAdd(ctx, protocol.DefaultKeyspace.Key(jobs, protocol.Timeout), redis.Z{Score: 1, Member: first}).Err(); err != nil { // its deadline has passed
		return err
	}
	if _, err := p.awaitWaiter(ctx, first); err != nil {
		return err
	}
	return errors.Join(held.Release(ctx), <-waiting)
}

// awaitWaiter waits for a call in the queue that is another than before, and returns its id.
func (p *program) awaitWaiter(ctx context.Context, before string) (string, error) {
	for {
		for waiter, err := range p.operator.Inspect(jobs).Waiters(ctx) {
			if err != nil || waiter.ID != before {
				return waiter.ID, err
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// releaseUnheard cuts the network and releases a permit, and units of a Weighted, whose method has no error to return.
func (p *program) releaseUnheard(ctx context.Context) error {
	sem, err := p.client.Semaphore(other, limit)
	if err != nil {
		return err
	}
	held, err := sem.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	weighted, err := p.client.Weighted("weighted", limit)
	if err != nil {
		return err
	}
	if err := weighted.Acquire(ctx, 1); err != nil {
		return err
	}
	p.network.cut()
	defer p.network.heal()
	weighted.Release(1)
	if held.Release(ctx) == nil {
		return errors.New("a release without a network was confirmed")
	}
	return p.admit(ctx, sem)
}

// admit lets a request through although the network is cut.
func (p *program) admit(ctx context.Context, sem *fairsem.Semaphore) error {
	handler, err := fairsemhttp.Handler(http.NotFoundHandler(), sem, fairsemhttp.Options{
		MaxWait: time.Second, OnUnavailable: fairsemhttp.Admit,
		OnAdmitted: func(r *http.Request, _ error) { p.observer.Admitted(r.Context(), sem.Name()) },
	})
	if err != nil {
		return err
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	if answer.Code != http.StatusNotFound {
		return fmt.Errorf("a request was answered with %d instead of being let through", answer.Code)
	}
	return nil
}

// network is the network that a client dials through. It can be cut.
type network struct {
	mu   sync.Mutex
	down bool
	open map[net.Conn]bool
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, net.ErrClosed
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err == nil {
		n.open[conn] = true
	}
	return conn, err
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for conn := range n.open {
		_ = conn.Close() // its user may have closed it
	}
	clear(n.open)
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}
