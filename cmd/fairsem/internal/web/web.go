// Package web is a page about the semaphores on a server, with metrics for Prometheus. One goroutine polls Redis; all
// viewers share its results.
package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Options configure a page. All but Pattern, Busy, TenantMetrics, Hosts and Token are required.
type Options struct {
	Client        *fairsem.Client
	Redis         string        // its address for people; without a password
	Interval      time.Duration // between two polls of Redis
	Timeout       time.Duration // by how much a poll or an answer to PING may be late, before Redis counts as away
	Names         int           // how many names are polled, at most
	Pattern       string        // that names have to match; "": any. One that is none matches nothing
	Busy          bool          // list only names with a holder or a waiter
	Hosts         []string      // by which browsers may call the page, beside localhost and addresses
	TenantMetrics bool          // poll the tenants of all names, for metrics
	Token         string        // clients that know it may change something; "": no client may
	Log           io.Writer     // for changes and their origin, and for errors of the program

	Ping func(context.Context) error // sends PING to Redis, in a cluster to all primaries, of which one has to answer
}

// Bounds on the memory that all clients together can take.
const (
	maxRequest = 16 << 10
	maxSending = 32 << 20 // of pages and pictures that clients have not taken yet
	maxDrawing = 2        // pages and pictures at a time
)

// Time limits for one client. A stream has its own.
const (
	headerLimit = 5 * time.Second
	readLimit   = 10 * time.Second
	writeLimit  = 30 * time.Second
	idleLimit   = time.Minute
	endLimit    = time.Second // for requests in flight at the end
)

//go:embed templates static
var files embed.FS

// Page serves the page until its Serve ends. Data flows in one direction: the sampler polls Redis, a picture is made of
// the result, and a stream or a page sends that. Only actions and the details of one name query Redis themselves, and
// details no more than so many a second.
type Page struct {
	Options
	pulse     *pinger
	wanted    func(name string) bool // which names may be seen
	names     *inspect.Finder
	sampler   *sampler
	details   *details
	fragments cache
	templates *template.Template
	figures   cache                // of the metrics of names, which can be long
	registry  *prometheus.Registry // of Redis as a whole
	perName   *prometheus.Registry
	login     *login // nil: no changes are possible
	journal   *log.Logger
	unread    sync.Once // there were tenants that could not be read
	handler   http.Handler

	pages, streams, scrapes *quota // requests
	sending                 *quota // bytes
	drawing                 chan struct{}
}

// New makes a page. It does no I/O.
func New(o Options) *Page {
	p := &Page{
		Options:   o,
		wanted:    inspect.Matcher(o.Pattern),
		templates: template.Must(template.ParseFS(files, "templates/*.html")),
		pulse:     newPinger(o.Interval, o.Ping),
		journal:   newJournal(o.Log),
		pages:     newQuota(maxPages),
		streams:   newQuota(maxStreams),
		scrapes:   newQuota(maxScrapes),
		sending:   newQuota(maxSending),
		drawing:   make(chan struct{}, maxDrawing),
	}
	p.names = inspect.NewFinder(o.Client, p.wanted, o.Names, o.Interval)
	p.sampler = newSampler(o.Interval, o.Timeout, o.Names, p.names.Query)
	if o.TenantMetrics {
		p.sampler.tenants = func(ctx context.Context, all []fairsem.Status) (map[string]inspect.Tenants, error) {
			of, err := inspect.TenantsOf(ctx, o.Client, all, max(o.Interval, time.Second))
			p.reportUnread(of)
			return of, err
		}
	}
	p.details = newDetails(p.pollTimeout(), o.Interval/2, func(ctx context.Context, name string) (inspect.Detail, error) {
		return inspect.PollDetail(ctx, o.Client, name, maxTickets)
	})
	p.register()
	if o.Token != "" {
		p.login = newLogin(o.Token)
	}
	p.handler = p.guard(p.routes())
	return p
}

// pollTimeout is how long one poll may take, and how old the last successful one may be.
func (p *Page) pollTimeout() time.Duration { return p.Interval + p.Timeout }

// pingTimeout is how old the last answer to PING may be. In that time more than one is sent, however long the interval between polls is.
func (p *Page) pingTimeout() time.Duration { return 2*p.pulse.every + p.Timeout }

// routes are all that there is. Without a token there is none that changes anything.
func (p *Page) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.index)
	mux.HandleFunc("GET /stream", p.indexStream)
	mux.HandleFunc("GET /semaphore", p.semaphore)
	mux.HandleFunc("GET /semaphore/stream", p.semaphoreStream)
	mux.HandleFunc("GET /healthz", p.health)
	mux.HandleFunc("GET /metrics", p.metrics)
	static, _ := fs.Sub(files, "static") // it is embedded
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, static, r.PathValue("file"))
	})
	if p.login != nil {
		p.writeRoutes(mux)
		return mux
	}
	for _, path := range []string{"/login", "/logout", "/act/"} {
		mux.HandleFunc(path, changesNothing)
	}
	return mux
}

// ServeHTTP answers one request.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Serve may be called once. It polls Redis and answers until ctx ends, and returns its cause, or why it cannot listen any
// more. It closes the listener.
func (p *Page) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, run := range []func(context.Context){p.pulse.run, p.names.Run, p.sampler.run} {
		running.Go(func() { run(ctx) }) // ends with ctx; waited for below
	}
	server := &http.Server{
		Handler:           p,
		ReadHeaderTimeout: headerLimit,
		ReadTimeout:       readLimit,
		WriteTimeout:      writeLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    maxRequest,
		ErrorLog:          log.New(rateLimited{p.Log, rate.NewLimiter(1, 20)}, "fairsem: ", 0),
		ConnState:         newConnectionLimit(maxConnections).changed,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // streams end with it
	}
	running.Go(func() { cancel(server.Serve(listener)) }) // ends when the server is closed; waited for below
	<-ctx.Done()
	end(server)
	running.Wait()
	return context.Cause(ctx)
}

// end lets requests in flight finish, for as long as that is worth waiting for.
func end(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close() // its clients see that it is gone
	}
}

// away explains why Redis cannot be queried now; "" if it can. Anyone can read it, so it has no text from Redis.
func (p *Page) away(now *snapshot) string {
	age, ever := p.pulse.age()
	switch {
	case now.refused:
		return "Redis refuses the query, the user of fairsem serve lacks a right: fairsem doctor names it"
	case !ever && !p.pulse.asked.Load():
		return "Redis has not answered yet"
	case !ever:
		return "Redis does not answer"
	case age > p.pingTimeout():
		return "Redis has not answered for " + text.Ago(age)
	}
	return ""
}

// trouble explains why the page is not up to date; "" if it is.
func (p *Page) trouble(now *snapshot) string {
	if away := p.away(now); away != "" {
		return away
	}
	switch age := time.Since(now.there); {
	case now.at.IsZero():
		return "No answer yet"
	case age > p.pollTimeout():
		return "Redis answers, but the last successful query of all names is " + text.Ago(age) + " old"
	}
	return ""
}

// health reports whether Redis answers, even if a query takes long.
func (p *Page) health(w http.ResponseWriter, _ *http.Request) {
	if away := p.away(p.sampler.latest()); away != "" {
		http.Error(w, away, http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // the client is gone
}
