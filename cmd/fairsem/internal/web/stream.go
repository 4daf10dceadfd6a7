package web

import (
	"net/http"
	"strings"
	"time"
)

// A client that does not take a picture within pictureLimit is not waited for.
const pictureLimit = 10 * time.Second

// stream sends a picture after each poll, for as long as the client reads them. A slow client misses some, and one that asks for the
// header alone has all that it wants.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, picture picture) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or nginx would keep pictures back
	if r.Method == http.MethodHead {
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // where there is none to set it ends later, that is all
	for {
		now := p.sampler.latest()
		paint := picture(now)
		_ = out.SetWriteDeadline(time.Now().Add(pictureLimit)) // likewise
		if err := p.send(w, r, p.draw(func() []byte { return event(paint()) })); err != nil {
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

// send sends a picture, or the client misses one if too many are being sent.
func (p *Page) send(w http.ResponseWriter, r *http.Request, event []byte) error {
	if !p.sending.acquire(r.RemoteAddr, len(event)) {
		return nil
	}
	defer p.sending.release(r.RemoteAddr, len(event))
	_, err := w.Write(event)
	return err
}

// lineEnds replaces carriage returns, which end a line of a stream, too: text in a picture must not.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// event is a picture as one server-sent event. HTML knows no difference between the ends of lines either.
func event(picture []byte) []byte {
	text := strings.TrimSuffix(lineEnds.Replace(string(picture)), "\n")
	return []byte("retry: 2000\ndata: " + strings.ReplaceAll(text, "\n", "\ndata: ") + "\n\n")
}
