package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hub has the jobs and the databases. A worker that calls /N does the next job on database N.
type hub struct {
	*httptest.Server

	mu        sync.Mutex
	todo      []int
	finished  map[int]bool
	databases [databases]struct {
		used  bool
		token int64 // the highest that it has seen
	}
	shared, late int // calls that found their database in use, or had a token that is too low

	killed, heir int // workers: the one that was killed, and the next one that used its database
	number       int // of this database
}

const killAt = 10 // the job

func newHub() *hub {
	h := &hub{finished: make(map[int]bool)}
	for job := range jobs {
		h.todo = append(h.todo, job)
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	return h
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	token, _ := strconv.ParseInt(r.FormValue("token"), 10, 64)
	worker, _ := strconv.Atoi(r.FormValue("worker"))
	job, status := h.begin(number, token, worker)
	if status == http.StatusOK {
		h.end(number, job, h.do(r, job, worker))
	}
	w.WriteHeader(status)
}

func (h *hub) begin(number int, token int64, worker int) (job, status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := &h.databases[number]
	switch {
	case token < d.token:
		h.late++
		return 0, http.StatusConflict
	case d.used:
		h.shared++
		return 0, http.StatusConflict
	case len(h.todo) == 0:
		return 0, http.StatusNoContent
	}
	job, h.todo = h.todo[0], h.todo[1:]
	d.used, d.token = true, token
	switch {
	case job == killAt && h.killed == 0:
		h.killed, h.number = worker, number
	case h.killed != 0 && number == h.number && h.heir == 0:
		h.heir = worker
	}
	return job, http.StatusOK
}

// do does the job, or kills the worker in the middle of it.
func (h *hub) do(r *http.Request, job, worker int) (done bool) {
	if p, err := os.FindProcess(worker); err == nil && h.dies(job, worker) {
		_ = p.Kill() // kill -9
		<-r.Context().Done()
	}
	select {
	case <-time.After(40 * time.Millisecond):
		return true
	case <-r.Context().Done():
		return false
	}
}

func (h *hub) dies(job, worker int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return job == killAt && worker == h.killed
}

func (h *hub) end(number, job int, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.databases[number].used = false
	h.finished[job] = done
	if !done {
		h.todo = append(h.todo, job) // another worker does it
	}
}

func (h *hub) done() (n int) {
	for _, done := range h.finished {
		if done {
			n++
		}
	}
	return n
}
