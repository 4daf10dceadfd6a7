package web

import (
	"bytes"
	"net/http"
	"time"
)

// A client that does not take a picture within pictureLimit is not waited for.
const pictureLimit = 10 * time.Second

// stream sends a picture after each look, for as long as the client takes them. One that is slow misses some.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, picture func(*snapshot) []byte) {
	if !p.streams.TryAcquire(1) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many are watching", http.StatusServiceUnavailable)
		return
	}
	defer p.streams.Release(1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or nginx would keep pictures back
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // where there is none to set it ends later, that is all
	for {
		now := p.sampler.latest()
		_ = out.SetWriteDeadline(time.Now().Add(pictureLimit)) // likewise
		if _, err := w.Write(event(picture(now))); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-now.replace:
		case <-r.Context().Done(): // or the server ends
			return
		}
	}
}

// event is a picture as one server-sent event.
func event(picture []byte) []byte {
	var b bytes.Buffer
	b.WriteString("retry: 2000\n")
	for line := range bytes.Lines(picture) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
