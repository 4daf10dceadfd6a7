package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	fast      = 2  // hosts, beside one that hangs
	pagesEach = 15 // of each host
)

// web is three hosts. The pages of each are a tree, and page n of each has links to page n of the others. The last host hangs
// until all pages of the others are served.
type web struct {
	hosts []*httptest.Server
	free  chan struct{} // closed when the last host no longer hangs

	mu        sync.Mutex
	now       []int // requests, for each host
	most      int   // of one host, at once
	served    int
	meanwhile int // served before the last host answered anything
}

func newWeb() *web {
	w := &web{free: make(chan struct{}), now: make([]int, fast+1)}
	for host := range fast + 1 {
		w.hosts = append(w.hosts, httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.begin(host)
			defer w.end(host)
			n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			for _, to := range []int{n, 2 * n, 2*n + 1} {
				w.link(rw, to)
			}
		})))
	}
	return w
}

func (w *web) link(rw http.ResponseWriter, page int) {
	for _, to := range w.hosts {
		if page <= pagesEach {
			_, _ = fmt.Fprintf(rw, `<a href="%s/%d">`, to.URL, page) // the crawler reports what it could not read
		}
	}
}

func (w *web) begin(host int) {
	w.mu.Lock()
	w.now[host]++
	w.most = max(w.most, w.now[host])
	w.mu.Unlock()
	if host < fast {
		time.Sleep(5 * time.Millisecond)
		return
	}
	select {
	case <-w.free:
	case <-time.After(20 * time.Second): // the crawler does not get on without it
	}
}

func (w *web) end(host int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if host == fast && w.meanwhile == 0 {
		w.meanwhile = w.served
	}
	w.now[host]--
	if w.served++; w.served == fast*pagesEach {
		close(w.free)
	}
}

func (w *web) home() string { return w.hosts[0].URL + "/1" }

func (w *web) close() {
	for _, h := range w.hosts {
		h.Close()
	}
}
