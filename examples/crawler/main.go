// Command crawler fetches the pages of several hosts, and is polite to each of them:
//
//	go run github.com/fairsem/fairsem/examples/crawler@latest
//
// Two machines crawl together. A host gets at most two requests at once, from all machines together, and a host that
// hangs holds up no other.
//
// It needs no Redis; with $REDIS_URL it uses the one there.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/examples/internal/stage"
	"github.com/fairsem/fairsem/fairsemhttp"
)

const perHost = 2 // requests at once

// polite returns an HTTP client with a limit for each host. A request counts until its body was read or closed. For a pause between
// requests, make the Base of this Transport one of client.Limiter("crawl-rate/"+host, 1, time.Second): a request waits for its turn last, so
// that none has spent it while the host hangs.
func polite(client *fairsem.Client) *http.Client {
	return &http.Client{Transport: &fairsemhttp.Transport{Options: fairsemhttp.Options{
		LimitOf: func(r *http.Request) (fairsemhttp.Limit, error) {
			return client.Semaphore("crawl/"+r.URL.Host, perHost) // a name for each host; it exists while it is in use
		},
	}}}
}

// crawl is the pages that are known, and the goroutines that fetch them: one for each page. Nothing but the limits of the hosts
// bounds them.
type crawl struct {
	errgroup.Group
	machines []*http.Client

	mu    sync.Mutex
	known map[string]bool // in your crawler: a set in Redis
}

var link = regexp.MustCompile(`href="([^"]+)"`)

// add has a page fetched, by one machine or another, unless it is known.
func (c *crawl) add(ctx context.Context, page string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[page] {
		return
	}
	c.known[page] = true
	machine := c.machines[len(c.known)%len(c.machines)]
	c.Go(func() error { return c.fetch(ctx, machine, page) })
}

func (c *crawl) fetch(ctx context.Context, machine *http.Client, page string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return err
	}
	response, err := machine.Do(r) // waits in the queue of the host, first come, first served
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // else the host has one request less for good
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for _, found := range link.FindAllSubmatch(text, -1) {
		c.add(ctx, string(found[1]))
	}
	return nil
}

func main() { stage.Run(run) }

func run(ctx context.Context, redis *stage.Redis, checks *stage.Checks) error {
	web := newWeb()
	defer web.close()
	c := &crawl{known: make(map[string]bool)}
	for range 2 {
		client, err := fairsem.New(redis, redis.Options()) // one for each process
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // nothing is held any more
		c.machines = append(c.machines, polite(client))
	}
	fmt.Printf("%d machines crawl %d hosts, one of which hangs for a while\n", len(c.machines), len(web.hosts))
	c.add(ctx, web.home())
	if err := c.Wait(); err != nil {
		return err
	}

	web.close()
	pages := len(web.hosts) * pagesEach
	checks.That(web.served == pages && len(c.known) == pages, "%d pages were fetched, each once", web.served)
	checks.That(web.most <= perHost, "no host had more than %d requests at once", perHost)
	checks.That(web.meanwhile == fast*pagesEach, "%d pages of the others were fetched while one host hung", web.meanwhile)
	return nil
}
