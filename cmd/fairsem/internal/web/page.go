package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
)

// frame is the part of a page around its own content.
type frame struct {
	Title   string
	Redis   string
	Stream  string        // where pictures come from; "": nothing on the page moves
	Live    template.HTML // the first of them
	Notice  string        // of the change that was just made
	Writes  bool          // changes are possible
	In      bool          // it is this browser
	Again   string        // where to come back after a login
	Content any
}

// frame is for the browser that asks.
func (p *Page) frame(r *http.Request, title string) frame {
	f := frame{Title: title, Redis: p.Redis, Again: r.URL.RequestURI()}
	if p.login != nil {
		s := p.login.session(r)
		f.Writes, f.In, f.Notice = true, s != nil, p.login.notice(s)
	}
	return f
}

// picture is the content of a page as of a poll: first the part that may wait for Redis, then the part that only takes
// memory and time of this machine.
type picture func(*snapshot) (draw func() []byte)

// draw makes something that can be large. Only so many are made at a time.
func (p *Page) draw(make func() []byte) []byte {
	p.drawing <- struct{}{}
	defer func() { <-p.drawing }()
	return make()
}

// show writes a page.
func (p *Page) show(w http.ResponseWriter, r *http.Request, status int, name string, f frame) {
	p.showLive(w, r, status, name, f, nil)
}

// showLive writes a page with a picture. Pages that are being sent take no more memory than there is room for.
func (p *Page) showLive(w http.ResponseWriter, r *http.Request, status int, name string, f frame, live picture) {
	paint := func() []byte { return nil }
	if live != nil {
		paint = live(p.sampler.latest())
	}
	text := p.draw(func() []byte {
		f.Live = template.HTML(paint()) // made by a template
		return p.render(name, f)
	})
	if !p.sending.acquire(r.RemoteAddr, len(text)) {
		tooMany(w)
		return
	}
	defer p.sending.release(r.RemoteAddr, len(text))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client is gone
}

// render fills in a template. The data is made in this package, so that it cannot fail.
func (p *Page) render(name string, data any) []byte {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// problem is the page of an error.
func (p *Page) problem(w http.ResponseWriter, r *http.Request, status int, text string) {
	f := p.frame(r, http.StatusText(status))
	f.Content = text
	p.show(w, r, status, "problem.html", f)
}

func (p *Page) index(w http.ResponseWriter, r *http.Request) {
	filter := readFilter(r)
	f := p.frame(r, "Semaphores")
	f.Stream = filter.path("/stream")
	p.showLive(w, r, http.StatusOK, "live.html", f, p.indexPicture(filter))
}

func (p *Page) indexStream(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, p.indexPicture(readFilter(r)))
}

func (p *Page) indexPicture(filter filter) picture {
	return func(now *snapshot) func() []byte {
		return func() []byte {
			trouble := p.trouble(now)
			return p.fragments.get(now.polls, filter.path("/")+" "+trouble, func() []byte {
				return p.render("index-live", p.overview(now, filter, trouble))
			})
		}
	}
}

func (p *Page) semaphore(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if err := p.checkName(name); err != nil {
		p.problem(w, r, badStatus(err), sentence(err))
		return
	}
	f := p.frame(r, title(name))
	f.Stream = "/semaphore/stream?" + url.Values{"name": {name}}.Encode()
	p.showLive(w, r, http.StatusOK, "live.html", f, p.semaphorePicture(r, name))
}

func (p *Page) semaphoreStream(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if err := p.checkName(name); err != nil {
		http.Error(w, err.Error(), badStatus(err))
		return
	}
	p.stream(w, r, p.semaphorePicture(r, name))
}

// semaphorePicture has links to changes only for a session, and only while it lasts. It is shared by clients that see the same: not where
// the holders and waiters are not known, which may be so for one address alone, as is why they are old.
func (p *Page) semaphorePicture(r *http.Request, name string) picture {
	return func(now *snapshot) func() []byte {
		d := p.detail(r.Context(), now, r.RemoteAddr, name)
		in := p.login != nil && p.login.session(r) != nil // now: it may have ended while Redis was asked
		now = p.sampler.latest()                          // a query may have waited for its turn for longer than until the next poll
		trouble := p.trouble(now)
		draw := func() []byte { return p.render("semaphore-live", p.closeUp(now, d, name, trouble, in)) }
		if !d.seen {
			return draw
		}
		key := fmt.Sprintf("%q of %d %t %q %q %s", name, d.At.UnixNano(), in, d.age, d.why, trouble)
		return func() []byte { return p.fragments.get(now.polls, key, draw) }
	}
}
