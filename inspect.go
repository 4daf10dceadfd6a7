package fairsem

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Status is the state of a semaphore at one moment.
type Status struct {
	Name       string
	At         time.Time     // server time, as in Ticket.Since; never goes back
	Limit      int64         // in force
	Declared   int64         // by the latest process that declared one; else that of the handle, or 0
	Pinned     bool          // whether Limit was set by hand
	Used       int64         // units held
	Holders    int64         // permits held
	Waiting    int64         // waiters
	OldestWait time.Duration // how long the head of the queue has waited, and its head start; 0: no queue
	NextExpiry time.Duration // until the next lease ends unless it is renewed; 0: none. From 150 on, those of evicted permits count
	Window     time.Duration // after which a grant of a Limiter expires; 0: not a Limiter
	Exists     bool          // in use, or was lately, see List, or has a limit set by hand
	Granted    int64         // permits and calls granted since the name exists
	Expired    int64         // permits since then whose lease ended before their release; none for a Limiter
	Pace       float64       // recent grants per second while calls wait; 0: no queue, or no grant since it formed

	ofTenant bool // read with a handle for the calls of a tenant
}

// ExpectedWait estimates how long a call that joins the queue now would wait: until the present waiters and the call itself are
// granted, at the present Pace. It is unknown during the first second of a queue, before any of its calls has been granted, when
// no call waits but no unit is free, and while the name is paused. A pause, a grace period or a step of the server's clock
// distorts it for a while. A call that weighs more than others waits longer. It is meant for a Retry-After, or to choose where to
// send work. For a Limiter, [*WaitError] and [Decision] are exact, or a lower bound: see [Limiter.Allow].
//
// Where tenants share the name, this is the queue of all of them at the pace of all of them. It says nothing about one tenant:
// one that holds little may be next, and one that holds much may wait for longer. So it is unknown in a Status that was read with
// a handle whose CallOptions have a Tenant, a Share or a TenantLimit.
func (s Status) ExpectedWait() (wait time.Duration, known bool) {
	switch {
	case s.ofTenant:
		return 0, false
	case s.Waiting == 0 && s.Used < s.Limit:
		return 0, true
	case s.Pace <= 0 || s.Limit == 0:
		return 0, false
	}
	seconds := float64(s.Waiting+1) / s.Pace
	return time.Duration(min(seconds, maxExpected.Seconds()) * float64(time.Second)), true
}

// maxExpected keeps an endless wait within the range of a Duration.
const maxExpected = 1000 * time.Hour

// Ticket is a permit or a waiter.
type Ticket struct {
	ID        string        // the permit id
	Tenant    string        // CallOptions.Tenant
	Label     string        // of the process, see Options.Label; "" if the process has ended or been silent for long, or it cannot be read
	Token     int64         // the fencing token; 0 while waiting
	Weight    int64         // units
	Numbers   []int64       // of a permit with CallOptions.Numbered: those of its units
	Since     time.Time     // server time of the grant, or of the arrival less the head start
	ExpiresIn time.Duration // until the lease ends unless it is renewed; 0: it has ended

	unread error // why Label cannot be read; nil: it was
}

// Inspector shows the state of one name in Redis, and changes it, for dashboards and operators. The name may be that of a
// Semaphore, a Mutex, an RWMutex, a Limiter or a Weighted, of this process or of another. An Inspector declares no limit and
// holds nothing. It is safe for concurrent use.
type Inspector struct {
	client *Client
	name   string
	spec   protocol.LimitSpec // of the Semaphore or the like that it is part of: for Status where no process has declared a limit

	ofTenant bool // that handle is for the calls of a tenant
}

// Inspect returns an Inspector of that name. It does no I/O. With a name that [Client.Semaphore] refuses, each of its methods
// returns [ErrInvalid].
func (c *Client) Inspect(name string) *Inspector { return &Inspector{client: c, name: name} }

// of returns i as part of a handle whose calls are on that account.
func (i *Inspector) of(a account) *Inspector {
	if i == nil || i.ofTenant == (a.share > 0) {
		return i
	}
	other := *i
	other.ofTenant = !i.ofTenant
	return &other
}

// Name returns the name that the Inspector was made with.
func (i *Inspector) Name() string {
	if i == nil {
		return ""
	}
	return i.name
}

// check does all checks that need no I/O.
func (i *Inspector) check(ctx context.Context) error {
	switch {
	case i == nil || i.client == nil:
		return errNoClient
	case ctx == nil:
		return errNilContext
	}
	if err := i.client.check(); err != nil {
		return err
	}
	return checkName(i.name)
}

// wrap adds the method and the name to an error.
func (i *Inspector) wrap(op string, err error) error { return wrap(op, i.Name(), err) }

// Status returns the present state of the name. Expired leases do not count. Where no process has declared a limit,
// Declared is 0, and so is Limit unless one was set by hand. It declares no limit, changes nothing and grants nothing. A done
// ctx ends it; the other errors are those of Acquire.
func (i *Inspector) Status(ctx context.Context) (Status, error) {
	if err := i.check(ctx); err != nil {
		return Status{}, i.wrap("status", err)
	}
	found, err := i.stock(ctx)
	s := statusOf(i.name, found.Status())
	s.ofTenant = i.ofTenant
	return s, i.wrap("status", err)
}

func statusOf(name string, s protocol.Status) Status {
	return Status{
		Name: name, At: s.At, Limit: s.Limit, Declared: s.Declared, Pinned: s.Pinned,
		Used: s.Used, Holders: s.Holders, Waiting: s.Waiting, OldestWait: s.OldestWait, NextExpiry: s.NextExpiry,
		Window: s.Window, Exists: s.Exists, Granted: s.Granted, Expired: s.Expired, Pace: s.Pace,
	}
}

// stock counts as of one moment. Where more entries have expired than one call counts, it makes several calls, and starts again
// if any of them was removed meanwhile.
func (i *Inspector) stock(ctx context.Context) (protocol.Stock, error) {
	var all protocol.Stock
	for {
		r, err := i.client.query(ctx, i.name, i.client.keyspace.Status(i.name, i.spec, all.AsOf, all.Counted))
		if err != nil {
			return protocol.Stock{}, err
		}
		found, err := protocol.DecodeStock(r.Numbers)
		if err != nil {
			return protocol.Stock{}, err
		}
		same := true
		if all.Counted > 0 {
			found, same = all.With(found)
		}
		if same && found.Counted >= found.Expired {
			return found, nil
		}
		all = protocol.Stock{}
		if same {
			all = found
		}
	}
}

// Holders yields the permits that are held, in the order of their tokens. It reads page by page: each page is
// of one moment, and changes behind it are not seen. It ends with the first error, which comes
// with an empty Ticket.
func (i *Inspector) Holders(ctx context.Context) iter.Seq2[Ticket, error] {
	return i.list(ctx, "holders", protocol.Owner)
}

// Waiters is [Inspector.Holders] for the calls that wait, in the order of the queue.
func (i *Inspector) Waiters(ctx context.Context) iter.Seq2[Ticket, error] {
	return i.list(ctx, "waiters", protocol.Queue)
}

// Tenant is the state of a tenant of a name. See [CallOptions].
type Tenant struct {
	Name       string
	Share      int64         // 1 where no call has declared another
	Limit      int64         // most units that it may hold; 0: as many as the limit of the name
	Used       int64         // units held
	Holders    int64         // permits held
	Waiting    int64         // waiters
	OldestWait time.Duration // how long its first waiter has waited, and its head start; 0: it has none
}

// Tenants yields the tenants that hold permits or wait, each once, in no particular order. It reads page by page: each page is of
// one moment. A name that tenants do not share has one, without a name. Expired leases do not count, except where many end
// at once. It ends with the first error, which comes with an empty Tenant.
func (i *Inspector) Tenants(ctx context.Context) iter.Seq2[Tenant, error] {
	return func(yield func(Tenant, error) bool) {
		if err := i.check(ctx); err != nil {
			yield(Tenant{}, i.wrap("tenants", err))
			return
		}
		seen, cursor := make(map[string]bool), "0"
		for {
			r, err := i.client.query(ctx, i.name, i.client.keyspace.About(i.name).Tenants(cursor, pageSize))
			var page []protocol.TenantEntry
			if err == nil {
				page, cursor, err = protocol.DecodeTenants(r.List)
			}
			if err != nil {
				yield(Tenant{}, i.wrap("tenants", err))
				return
			}
			for _, e := range page {
				t := Tenant{e.Name, e.Share, e.Limit, e.Units, e.Permits, e.Waiting, time.Duration(max(0, e.Waited)) * time.Microsecond}
				if !seen[e.Name] && !yield(t, nil) {
					return
				}
				seen[e.Name] = true
			}
			if cursor == "0" {
				return
			}
		}
	}
}

// pageSize bounds how long a call about a long queue keeps the server busy.
const pageSize = 200

func (i *Inspector) list(ctx context.Context, op, kind string) iter.Seq2[Ticket, error] {
	return func(yield func(Ticket, error) bool) {
		if err := i.check(ctx); err != nil {
			yield(Ticket{}, i.wrap(op, err))
			return
		}
		var after protocol.Bookmark
		for more := true; more; {
			p, err := i.page(ctx, kind, after)
			if err != nil {
				yield(Ticket{}, i.wrap(op, err))
				return
			}
			for _, t := range i.client.ticketsOf(ctx, kind, p.Entries) {
				if !yield(t, nil) {
					return
				}
			}
			after, more = p.Last, p.More
		}
	}
}

func (i *Inspector) page(ctx context.Context, kind string, after protocol.Bookmark) (protocol.Page, error) {
	r, err := i.client.query(ctx, i.name, i.client.keyspace.About(i.name).Page(kind, after, pageSize))
	if err != nil {
		return protocol.Page{}, err
	}
	return protocol.DecodePage(r.List)
}

// ticketsOf converts a page. Only a holder has a token.
func (c *Client) ticketsOf(ctx context.Context, kind string, page []protocol.PageEntry) (all []Ticket) {
	for _, e := range page {
		t := Ticket{ID: e.ID, Tenant: protocol.TenantOf(e.ID), Weight: e.Weight, Numbers: e.Numbers, Since: time.UnixMicro(e.Number), ExpiresIn: e.Remaining}
		if kind == protocol.Owner {
			t.Token = e.Number
		}
		all = append(all, t)
	}
	c.readLabels(ctx, all)
	return all
}

// labelWait bounds how long a page waits for its labels.
const labelWait = time.Second

// readLabels fills in the labels of a page. They are in other slots than the semaphore. A label that cannot be read is left empty, because
// it is only for people to read; the ticket has the reason, for what selects by labels. Another user of Redis can store a label of any
// length, so no more of one is fetched than New accepts.
func (c *Client) readLabels(ctx context.Context, page []Ticket) {
	type answer struct {
		label  *redis.StringCmd
		server *pipeline.Pipeline
		reply  <-chan pipeline.Response
	}
	wait, cancel := context.WithTimeout(ctx, labelWait)
	defer cancel()
	began, answers := time.Now(), make(map[string]answer)
	labels, unread := make(map[string]string), make(map[string]error)
	pipelineTo := c.pipelinesOfPrimaries(wait)
	for _, t := range page {
		id := protocol.ClientOf(t.ID)
		if _, sent := answers[id]; sent || unread[id] != nil {
			continue
		}
		key := c.keyspace.LabelKey(id)
		server, err := pipelineTo(key)
		if err != nil {
			unread[id] = c.outcome(ctx, began, err)
			continue
		}
		label := redis.NewStringCmd(context.Background(), "getrange", key, 0, maxLabel-1)
		answers[id] = answer{label, server, server.Send(pipeline.Command{Cmd: label})}
	}
	for id, a := range answers {
		switch err := a.server.Await(wait, a.reply).Err; {
		case err == nil:
			labels[id] = wholeRunes(a.label.Val())
		case errors.Is(err, wait.Err()):
			unread[id] = c.outcome(ctx, began, failure.ErrNoAnswer)
		default:
			unread[id] = c.outcome(ctx, began, err)
		}
	}
	for n, t := range page {
		id := protocol.ClientOf(t.ID)
		page[n].Label, page[n].unread = labels[id], unread[id]
	}
}

// pipelinesOfPrimaries returns a function that finds the pipeline for a key: in a cluster one for each primary, as one that does not answer
// must not hold up the others.
func (c *Client) pipelinesOfPrimaries(ctx context.Context) func(key string) (*pipeline.Pipeline, error) {
	if c.cluster == nil {
		return func(string) (*pipeline.Pipeline, error) { return c.shared, nil }
	}
	of := make(map[*redis.Client]*pipeline.Pipeline)
	return func(key string) (*pipeline.Pipeline, error) {
		primary, err := c.cluster.MasterForKey(ctx, key)
		if err == nil && of[primary] == nil {
			of[primary] = c.newPipeline("")
		}
		return of[primary], failure.Discreet(err)
	}
}
