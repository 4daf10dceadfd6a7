package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// provider is an LLM API, which loads its model until start.
type provider struct {
	*httptest.Server
	once   sync.Once
	loaded chan struct{}

	mu        sync.Mutex
	now, most int
	answered  []string // whose calls, in their order
}

func newProvider() *provider {
	p := &provider{loaded: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(p.answer))
	return p
}

func (p *provider) url() *url.URL { return &url.URL{Scheme: "http", Host: p.Listener.Addr().String()} }

func (p *provider) start() { p.once.Do(func() { close(p.loaded) }) }

func (p *provider) answer(_ http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	<-p.loaded
	time.Sleep(20 * time.Millisecond) // the model works
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now--
	p.answered = append(p.answered, customer(r))
}

// last returns how many calls were answered until the last one of a customer.
func (p *provider) last(name string) int {
	n := len(p.answered)
	for n > 0 && p.answered[n-1] != name {
		n--
	}
	return n
}

// requests are those of one customer.
type requests struct {
	errgroup.Group
	answers, refused atomic.Int64
}

// send sends n requests of a customer to the pods in turn, so many at a time.
func send(name string, pods []string, n, together int) *requests {
	var all requests
	for first := range together {
		all.Go(func() error {
			for i := first; i < n; i += together {
				if err := all.send(name, pods[i%len(pods)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return &all
}

func (all *requests) send(name, pod string) error {
	r, err := http.NewRequest(http.MethodPost, pod, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Customer", name)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusOK:
		all.answers.Add(1)
	case response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") != "":
		all.refused.Add(1)
	default:
		err = fmt.Errorf("%s: %s", pod, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
