package setup

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"rsc.io/qr"

	"shuultuur/admin/web"
	"shuultuur/text"
)

// A kind is a kind of device, with a tab of its own.
type kind struct {
	Name, Title, Icon string
	menu              string // the way through the menus of the system, in its own words
}

var kinds = []kind{
	{"router", text.Mark("Router"), "router", ""}, {"phone", text.Mark("Phone"), "phone", ""},
	{"windows", "Windows", "laptop", "Settings > Network & internet > DNS server assignment · Proxy"}, {"mac", "Mac", "laptop", "System Settings > Network > Details > DNS · Proxies"},
	{"linux", "Linux", "desktop", "Settings > Network > IPv4 > DNS · Proxy"}, {"browser", text.Mark("Browser"), "globe", ""}, {"tv", text.Mark("TV and games"), "tv", ""},
}

// needs reports whether there is what a kind of device is told: routers and television sets name no proxy,
// and browsers no name server.
func (k *kind) needs(at *Places) bool {
	switch k.Name {
	case "router", "tv":
		return at.DNS != ""
	case "browser":
		return at.Proxy != ""
	}
	return true
}

// A connection is the page of the last step.
type connection struct {
	Step     string // connect, or home: the page leads on to Home
	Rail     []railStep
	Kinds    []kind
	Kind     string
	At       Places
	Code     string // path of the QR code
	Size     int    // of the code, with its margin
	First    []First
	Arriving []Arrival
	Menu     string // the way through the menus of the system
	Passkey  bool   // the address allows one
}

// done returns the first steps if they are over.
func (p *Pages) done(w http.ResponseWriter, r *http.Request) *Setup {
	s := p.Offered()
	if s == nil || s.Open() {
		http.NotFound(w, r)
		return nil
	}
	return s
}

func (p *Pages) showConnect(w http.ResponseWriter, r *http.Request) {
	s := p.done(w, r)
	if s == nil {
		return
	}
	first, err := s.First(r.Context(), s.done)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	d := &connection{Step: "connect", Rail: rail(len(steps) - 1), Kind: r.URL.Query().Get("device"), At: s.Places(), First: first, Arriving: s.Arriving(), Passkey: web.HostOf(r.Host) == "localhost"}
	for _, k := range kinds {
		if k.needs(&d.At) {
			d.Kinds = append(d.Kinds, k)
		}
	}
	i := max(0, slices.IndexFunc(d.Kinds, func(k kind) bool { return k.Name == cmp.Or(d.Kind, "phone") }))
	d.Kind, d.Menu = d.Kinds[i].Name, d.Kinds[i].menu
	d.Code, d.Size = code(d.At.Portal)
	web.WritePage(w, p.page, http.StatusOK, d)
}

// quiet is the width of the white margin around a code, in modules (ISO/IEC 18004).
const quiet = 4

// code returns the path of the QR code of an address, and its size with the margin.
func code(address string) (path string, size int) {
	if address == "" {
		return "", 0
	}
	c, err := qr.Encode(address, qr.M)
	if err != nil {
		return "", 0 // no code is that long
	}
	var b strings.Builder
	for y := range c.Size {
		for x := range c.Size {
			if c.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	return b.String(), c.Size + 2*quiet
}

const (
	lookEvery  = time.Second
	streamTime = 5 * time.Minute // after which a page connects again
	maxStreams = 20
)

// stream sends the part of the page that says who has come, whenever it changes.
func (p *Pages) stream(w http.ResponseWriter, r *http.Request) {
	s := p.done(w, r)
	if s == nil {
		return
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		http.Error(w, fmt.Sprintf("%d pages are live already; close one", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	page := p.page.In(p.Site.Texts.For(r.Header.Get("Accept-Language")))
	if t := web.TextsOf(w); t != nil {
		page = p.page.In(t)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	end := time.After(streamTime)
	sent, b := -1, bytes.Buffer{}
	for {
		first, err := s.First(r.Context(), s.done)
		if err == nil && len(first) != sent {
			sent = len(first)
			b.Reset()
			if err := page.ExecuteTemplate(&b, "first", &connection{At: s.Places(), First: first}); err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", sent, bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte("\n"), []byte("\ndata: "))); err != nil || out.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-web.Closing(r.Context()):
			return
		case <-end:
			return
		case <-tick.C:
		}
		if p.Site.StillAllowed(r) == nil {
			return
		}
	}
}

// home goes to the first page. A browser that comes from a page without TLS sends the cookie of its
// session only with the next request, which this page begins.
func (p *Pages) home(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Refresh", "0; url=/")
	web.WritePage(w, p.page, http.StatusOK, &connection{Step: "home"})
}

// end ends the first steps. The pages go on under TLS where other machines reach them: a browser sends
// the cookie of its session there only for a request that those pages themselves begin.
func (p *Pages) end(w http.ResponseWriter, r *http.Request) {
	s := p.done(w, r)
	if s == nil {
		return
	}
	to := "/"
	if at := s.Places().Pages; at != "" && r.TLS == nil && !web.Remote(r).IsLoopback() {
		to = strings.TrimSuffix(at, "/") + "/setup/home"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	if s.Ended != nil {
		s.Ended()
	}
}
