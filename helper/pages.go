package helper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/handover"
	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
)

const (
	pageAge   = 2 * time.Minute // Squid fetches a page at once
	maxPages  = 2048            // pages that are kept
	clickAge  = 24 * time.Hour
	maxClicks = 8192
	maxWrite  = 10 * time.Second
)

// pages keeps refused requests until Squid fetches their pages. It also records
// which warnings clients have accepted, because Squid does not pass on their
// cookies.
type pages struct {
	listener net.Listener // on a port of this machine

	mu     sync.Mutex
	of     map[string]*refused
	order  []string // identifiers, oldest first
	clicks map[click]accepted
}

// refused is a request whose page is kept.
type refused struct {
	mu     sync.Mutex // makes one page at a time
	x      *exchange.Exchange
	engine *Engine
	// unknown is why the client has to sign in; nil if the policy refuses the request.
	unknown error
	until   time.Time
}

// malformed is the identifier of the page for requests with an unreadable
// address.
const malformed = "malformed"

// A click identifies a client and the host whose warning it has accepted.
type click struct {
	addr       netip.Addr
	user, host string
}

type accepted struct {
	cookie string // name=value
	until  time.Time
}

func (p *pages) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if p.listener, err = lc.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		err = fmt.Errorf("cannot listen for Squid, which fetches block pages: %w", err)
	}
	return err
}

// url returns the URL from which Squid fetches a page.
func (p *pages) url(id string) string {
	return "http://" + p.listener.Addr().String() + "/" + url.PathEscape(id)
}

// keepPage keeps the page of a refused request.
func (p *pages) keepPage(id string, r *refused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.order) > 0 {
		oldest := p.of[p.order[0]]
		if len(p.order) < maxPages && now.Before(oldest.until) {
			break
		}
		delete(p.of, p.order[0])
		p.order = p.order[1:]
	}
	r.until = now.Add(pageAge)
	p.of[id] = r
	p.order = append(p.order, id)
}

// find returns the refused request with an identifier, or nil.
func (p *pages) find(id string) *refused {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.of[id]; r != nil && time.Now().Before(r.until) {
		return r
	}
	return nil
}

// clicked returns the URL to which a client is redirected that accepts a
// warning.
func (p *pages) clicked(ctx context.Context, x *exchange.Exchange, addr netip.Addr, user string) (to string, ok bool) {
	if x.T.Last < 1 { // a tunnel has no URL
		return "", false
	}
	s := x.Accept(ctx)
	if s == nil {
		return "", false
	}
	cookie, _, _ := strings.Cut(string(s.Get("Set-Cookie")), ";")
	if cookie != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now()
		if len(p.clicks) >= maxClicks || p.clicks == nil {
			kept := map[click]accepted{}
			for k, a := range p.clicks {
				if now.Before(a.until) && len(kept) < maxClicks/2 {
					kept[k] = a
				}
			}
			p.clicks = kept
		}
		p.clicks[click{addr, user, x.T.Host}] = accepted{cookie, now.Add(clickAge)}
	}
	return string(s.Get("Location")), true
}

// cookie returns the cookie that the client would send for accepted warnings.
func (p *pages) cookie(q *question) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.clicks) == 0 {
		return ""
	}
	u, err := url.Parse(q.url)
	if err != nil {
		return ""
	}
	a := p.clicks[click{q.addr, q.user, strings.ToLower(u.Hostname())}]
	if !time.Now().Before(a.until) {
		return ""
	}
	return a.cookie
}

// serve serves pages until ctx ends.
func (p *pages) serve(ctx context.Context, s *Server) error {
	h := &http.Server{Handler: http.HandlerFunc(s.page), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: maxWrite, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10}
	stopped := context.AfterFunc(ctx, func() {
		if hurry, ok := handover.HurryFrom(ctx); ok {
			p.waitForSquid(hurry)
		}
		h.Close()
	})
	defer stopped()
	if err := h.Serve(p.listener); err != nil && !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return fmt.Errorf("serve block pages to Squid: %w", err)
	}
	return nil
}

// waitForSquid waits while there are pages that Squid may fetch from this process, which has sent it here.
func (p *pages) waitForSquid(hurry <-chan struct{}) {
	for {
		p.mu.Lock()
		last := time.Time{}
		if n := len(p.order); n > 0 {
			last = p.of[p.order[n-1]].until
		}
		p.mu.Unlock()
		left := time.Until(last)
		if left <= 0 {
			return
		}
		select {
		case <-hurry:
			return
		case <-time.After(left):
		}
	}
}

// ofClient names the fields by which pages choose form and language.
var ofClient = []string{"Accept", "Accept-Language", "Sec-Fetch-Dest", "X-Requested-With"}

// page sends Squid the page that the proxy would send to its client.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/")
	w.Header().Set("Cache-Control", "no-store")
	if id == "" {
		s.answerPage(w, r)
		return
	}
	if id == malformed {
		http.Error(w, "The address of this page is malformed.", http.StatusBadRequest)
		return
	}
	k := s.pages.find(id)
	if k == nil {
		s.lost.Add(1)
		http.Error(w, "This page is blocked. The reason was kept for two minutes only: try again to see it. Reference: "+strings.Map(plainLetter, id), http.StatusForbidden)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.x
	x.Q.Fields = x.Q.Fields[:0]
	for _, name := range ofClient {
		if v := r.Header.Get(name); v != "" {
			x.Q.Add(name, v)
		}
	}
	if k.unknown != nil {
		s.write(w, x.AnswerUnidentified(k.unknown))
	} else {
		s.write(w, x.VerdictResponse(r.Context()))
	}
	x.End()
}

// plainLetter keeps letters and digits of an identifier.
func plainLetter(c rune) rune {
	if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return c
	}
	return -1
}

// answerPage answers with a page of the gateway. Squid does not pass on who requests it,
// so the page is for this machine.
func (s *Server) answerPage(w http.ResponseWriter, r *http.Request) {
	e := s.engine.Load()
	x := new(exchange.Exchange)
	s.inspector.Exchange(x)
	now := time.Now()
	x.Begin(&e.judge, now, s.ids.Next(now))
	x.T.Host = exchange.OwnHost
	if v := r.Header.Get("Accept-Language"); v != "" {
		x.Q.Add("Accept-Language", v)
	}
	s.write(w, x.OwnPage(r.Context()))
	x.End()
}

// write writes our answer.
func (s *Server) write(w http.ResponseWriter, m *message.Response) {
	for _, f := range m.Fields {
		if n := string(f.Name); n != "Content-Length" && n != "Date" {
			w.Header().Add(n, string(f.Value))
		}
	}
	w.WriteHeader(m.Status)
	_, _ = io.Copy(w, m.Body) // it fails if Squid has gone away
}
