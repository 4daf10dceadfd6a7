package web

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/url"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
)

// frame is what a page has around its own content.
type frame struct {
	Title   string
	Redis   string
	Stream  string        // where pictures come from; "": nothing on the page moves
	Live    template.HTML // the first of them
	Notice  string        // of what was just done
	Writes  bool          // somebody may change something
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

// show writes a page.
func (p *Page) show(w http.ResponseWriter, status int, name string, f frame) {
	text := p.render(name, f)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever asked is gone
}

// render fills in a template. What goes into one is made here, so that it cannot fail.
func (p *Page) render(name string, data any) []byte {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// problem is a page that says why there is no other.
func (p *Page) problem(w http.ResponseWriter, r *http.Request, status int, text string) {
	f := p.frame(r, http.StatusText(status))
	f.Content = text
	p.show(w, status, "problem.html", f)
}

func (p *Page) index(w http.ResponseWriter, r *http.Request) {
	filter := readFilter(r)
	f := p.frame(r, "Semaphores")
	f.Stream = filter.path("/stream")
	f.Live = template.HTML(p.indexPicture(filter)(p.sampler.latest())) // made by a template
	p.show(w, http.StatusOK, "live.html", f)
}

func (p *Page) indexStream(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, p.indexPicture(readFilter(r)))
}

func (p *Page) indexPicture(filter filter) func(*snapshot) []byte {
	return func(now *snapshot) []byte {
		return p.fragments.get(now.looks, filter.path("/"), func() []byte {
			return p.render("index-live", p.overview(now, filter))
		})
	}
}

func (p *Page) semaphore(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if _, err := look.Handle(p.Client, name); err != nil {
		p.problem(w, r, http.StatusBadRequest, "There can be no semaphore of that name.")
		return
	}
	f := p.frame(r, shown(name))
	f.Stream = "/semaphore/stream?" + url.Values{"name": {name}}.Encode()
	f.Live = template.HTML(p.semaphorePicture(r.Context(), name, f.In)(p.sampler.latest())) // made by a template
	p.show(w, http.StatusOK, "live.html", f)
}

func (p *Page) semaphoreStream(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if _, err := look.Handle(p.Client, name); err != nil {
		http.Error(w, "there can be no semaphore of that name", http.StatusBadRequest)
		return
	}
	in := p.login != nil && p.login.session(r) != nil
	p.stream(w, r, p.semaphorePicture(r.Context(), name, in))
}

// semaphorePicture has links to what may be changed only for those who logged in.
func (p *Page) semaphorePicture(ctx context.Context, name string, in bool) func(*snapshot) []byte {
	key := "/semaphore?" + name
	if in {
		key = "in:" + key
	}
	return func(now *snapshot) []byte {
		return p.fragments.get(now.looks, key, func() []byte {
			return p.render("semaphore-live", p.closeUp(ctx, now, name, in))
		})
	}
}
