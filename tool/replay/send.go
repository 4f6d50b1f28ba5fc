// Package replay sends the requests of a log through a gateway again, and counts the contents
// of logs. It is a tool for people beside the filter.
//
// The entries of a [whatif.Source] go to a [Sender], which requests them through a proxy at their
// original times. An [Origin] behind that proxy answers with bodies of the recorded size and
// type. The sender compares the statuses with those on record and measures times, for a
// [SendReport]. A [Counter] makes [Stats] of entries instead: it counts URLs, also more than fit
// into memory, by sorting them in runs on disk. Both are written as text or JSON.
package replay

import (
	"bufio"
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/tool/load"
	"shuultuur/whatif"
)

// SendConfig configures where and how fast to send a log, and for how long.
type SendConfig struct {
	Proxy string  // host:port of the gateway
	Speed float64 // relative to the original speed; 0 for as fast as responses come

	Parallel int // limit of requests in flight; 0 means 100

	// The run ends at whichever limit comes first.
	Requests int64         // 0 means 1,000,000
	Duration time.Duration // 0 means 10 min

	Timeout time.Duration // for one request; 0 means 60 s

	// Origin, if not nil, is the origin to which the gateway sends everything: Run first
	// requests an invented host, and stops if that request does not arrive there.
	Origin *Origin
	// Allow lists hosts that may be requested although they may not be answered here, and
	// proxies that are not on loopback.
	Allow []string

	Examples int // for each change of status; 0 means 3
}

// Defaults of a run.
const (
	DefaultRequests = 1_000_000
	DefaultDuration = 10 * time.Minute
	defaultParallel = 100
	defaultExamples = 3
	maxRefused      = 5 // hosts that are remembered
)

// Sender sends a log through a gateway. It can run once.
type Sender struct {
	cfg  SendConfig
	addr string // resolved address of the proxy

	sent     atomic.Int64
	inFlight atomic.Int64

	mu    sync.Mutex // guards the following
	tally sendTally
}

// sendTally has the sums of a run.
type sendTally struct {
	answered, bytes, fromOrigin, tunnels int64
	plain                                int64
	codes                                map[int]int64
	errors                               map[string]int64
	example                              map[string]string
	compared, same                       int64
	changes                              map[[2]int]*Change
	late, unfinished                     int64
	total, intended, lateness            load.Distribution
	most                                 int64
}

// lateAfter is the delay above which a request counts as late: more than timers and the
// scheduler cause.
const lateAfter = 10 * time.Millisecond

// New validates the settings and resolves the proxy.
func New(cfg SendConfig) (*Sender, error) {
	switch {
	case cfg.Parallel < 0 || cfg.Parallel > load.MaxParallel:
		return nil, fmt.Errorf("parallel must be between 1 and %d", load.MaxParallel)
	case cfg.Speed < 0 || cfg.Speed > 1e6:
		return nil, errors.New("speed must be between 0 and 1000000")
	case cfg.Requests < 0 || cfg.Requests > load.MaxFetches:
		return nil, fmt.Errorf("requests must be between 1 and %d", load.MaxFetches)
	case cfg.Duration < 0 || cfg.Duration > load.MaxDuration:
		return nil, fmt.Errorf("seconds must be between 0 and %g", load.MaxDuration.Seconds())
	}
	host, port, err := net.SplitHostPort(cfg.Proxy)
	if err != nil {
		return nil, fmt.Errorf("proxy %q must look like 127.0.0.1:8080", cfg.Proxy)
	}
	addr, err := load.Admit(host, cfg.Allow)
	if err != nil {
		return nil, fmt.Errorf("proxy %q: %w", cfg.Proxy, err)
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = defaultParallel
	}
	if cfg.Requests == 0 {
		cfg.Requests = DefaultRequests
	}
	if cfg.Duration == 0 {
		cfg.Duration = DefaultDuration
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Examples == 0 {
		cfg.Examples = defaultExamples
	}
	s := &Sender{cfg: cfg, addr: net.JoinHostPort(addr.String(), port)}
	s.tally = sendTally{codes: map[int]int64{}, errors: map[string]int64{}, example: map[string]string{}, changes: map[[2]int]*Change{}}
	return s, nil
}

// Sent returns how many requests were sent and how many are in flight. It is safe for
// concurrent use.
func (s *Sender) Sent() (sent, inFlight int64) { return s.sent.Load(), s.inFlight.Load() }

// parcel is an entry for a worker.
type parcel struct {
	whatif.Entry
	intended time.Time // zero for at once
}

// Run sends the entries and waits until all are answered, a limit is reached or ctx is done.
// The report of a run that ends early covers the requests sent so far.
func (s *Sender) Run(ctx context.Context, entries iter.Seq2[whatif.Entry, error]) (*SendReport, error) {
	if s.cfg.Origin != nil {
		if err := s.probe(ctx); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Duration)
	defer cancel()
	parcels := make(chan parcel)
	var crew sync.WaitGroup
	for range s.cfg.Parallel {
		crew.Add(1)
		go func() {
			defer crew.Done()
			w := &worker{s: s, ctx: ctx}
			defer w.hangUp()
			for p := range parcels {
				w.do(&p)
			}
		}()
	}
	d := dispatch{s: s, ctx: ctx, parcels: parcels, refused: map[string]bool{}}
	if s.cfg.Speed > 0 {
		entries = inOrder(entries)
	}
	err := d.run(entries)
	close(parcels)
	crew.Wait()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if outer.Err() != nil {
		d.ended = "interrupt"
	}
	return s.report(start, time.Since(start), &d), nil
}

// dispatch decides which requests to send, and when.
type dispatch struct {
	s       *Sender
	ctx     context.Context
	parcels chan<- parcel

	first      time.Time // time of the first entry
	begun      time.Time
	span       time.Duration // time of the log that was sent
	refused    map[string]bool
	notAllowed int64
	lookups    int64
	ended      string // the reason why the run ended early, "" if everything was sent
}

func (d *dispatch) run(entries iter.Seq2[whatif.Entry, error]) error {
	d.begun = time.Now()
	n := int64(0)
	for e, err := range entries {
		switch {
		case err != nil:
			return err
		case e.Method == whatif.Lookup:
			d.lookups++ // a proxy cannot resolve names for clients
			continue
		case !d.admit(e.Host):
			continue
		case n == d.s.cfg.Requests:
			d.ended = "requests"
			return nil
		}
		if !d.send(e) {
			d.ended = "seconds"
			return nil
		}
		n++
	}
	return nil
}

// admit reports whether a host may be requested.
func (d *dispatch) admit(host string) bool {
	if d.s.cfg.Origin != nil || host == "localhost" || slices.Contains(d.s.cfg.Allow, host) {
		return true
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Unmap().IsLoopback() {
		return true
	}
	d.notAllowed++
	if len(d.refused) < maxRefused {
		d.refused[host] = true
	}
	return false
}

// send passes an entry to a worker when its time has come. It returns false when the run is
// over.
func (d *dispatch) send(e whatif.Entry) bool {
	p := parcel{Entry: e}
	if d.s.cfg.Speed > 0 {
		if d.first.IsZero() {
			d.first = e.Start
		}
		gap := max(0, e.Start.Sub(d.first))
		p.intended = d.begun.Add(time.Duration(float64(gap) / d.s.cfg.Speed))
		d.span = max(d.span, gap)
		if !load.SleepUntil(d.ctx, p.intended) {
			return false
		}
	}
	select {
	case d.parcels <- p:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// reorder is the number of entries that are held for sorting: most logs are written at the end
// of a request, and long ones end late.
const reorder = 4096

// byStart is a heap of entries, earliest first. seq keeps the order of those with the same
// time.
type byStart []numberedEntry

type numberedEntry struct {
	whatif.Entry
	seq int64
}

func (h byStart) Len() int { return len(h) }
func (h byStart) Less(i, j int) bool {
	if !h[i].Start.Equal(h[j].Start) {
		return h[i].Start.Before(h[j].Start)
	}
	return h[i].seq < h[j].seq
}
func (h byStart) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byStart) Push(x any)   { *h = append(*h, x.(numberedEntry)) }
func (h *byStart) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// inOrder yields entries by their start, sorted within [reorder] of them.
func inOrder(entries iter.Seq2[whatif.Entry, error]) iter.Seq2[whatif.Entry, error] {
	return func(yield func(whatif.Entry, error) bool) {
		var h byStart
		seq := int64(0)
		for e, err := range entries {
			if err != nil {
				yield(whatif.Entry{}, err)
				return
			}
			heap.Push(&h, numberedEntry{e, seq})
			seq++
			if len(h) > reorder && !yield(heap.Pop(&h).(numberedEntry).Entry, nil) {
				return
			}
		}
		for len(h) > 0 {
			if !yield(heap.Pop(&h).(numberedEntry).Entry, nil) {
				return
			}
		}
	}
}

// probe ensures that requests sent to the gateway arrive at our origin instead of the
// internet.
func (s *Sender) probe(ctx context.Context) error {
	token := strings.ToLower(rand.Text())
	w := &worker{s: s, ctx: ctx}
	defer w.hangUp()
	e := whatif.Entry{Method: http.MethodGet, URL: "http://" + probeHost + "/" + token, Host: probeHost, Port: 80, Status: 200, Type: "text/plain"}
	got, err := w.exchange(&e)
	if err != nil {
		return fmt.Errorf("asking the gateway at %s: %w", s.addr, err)
	}
	if !s.cfg.Origin.arrived(token) {
		return fmt.Errorf("the gateway at %s answered a request for %q itself or from elsewhere (status %d), so the log could go out to the internet: set its parent to the origin, proxy: {parent: \"http://%s\"}, and let it pass", s.addr, probeHost, got.code, s.cfg.Origin.Addr())
	}
	return nil
}

// probeHost never exists (RFC 6761 section 6.4).
const probeHost = "replay.invalid"

// worker sends requests one after another on one connection.
type worker struct {
	s   *Sender
	ctx context.Context

	nc   net.Conn
	br   *bufio.Reader
	done func() bool // cancels the wait for ctx
	head []byte
}

func (w *worker) hangUp() {
	if w.nc != nil {
		w.done()
		w.nc.Close()
		w.nc = nil
	}
}

func (w *worker) dial() error {
	d := net.Dialer{Timeout: w.s.cfg.Timeout}
	nc, err := d.DialContext(w.ctx, "tcp", w.s.addr)
	if err != nil {
		return err
	}
	w.nc = nc
	if w.br == nil {
		w.br = bufio.NewReaderSize(nc, 16<<10)
	} else {
		w.br.Reset(nc)
	}
	// A blocked read does not notice ctx: closing the connection ends it.
	w.done = context.AfterFunc(w.ctx, func() { nc.Close() })
	return nil
}

// answer is a response.
type answer struct {
	code   int
	bytes  int64
	origin bool // it comes from our origin
}

func (w *worker) do(p *parcel) {
	s := w.s
	s.sent.Add(1)
	in := s.inFlight.Add(1)
	start := time.Now()
	got, err := w.exchange(&p.Entry)
	end := time.Now()
	s.inFlight.Add(-1)
	if err != nil && w.ctx.Err() != nil {
		s.count(func(t *sendTally) { t.unfinished++ })
		return
	}
	s.count(func(t *sendTally) {
		t.most = max(t.most, in)
		if !p.intended.IsZero() {
			late := start.Sub(p.intended)
			t.lateness.Add(max(0, late))
			if late > lateAfter {
				t.late++
			}
		}
		if err != nil {
			t.fail(p.Target(), err)
			return
		}
		t.total.Add(end.Sub(start))
		if !p.intended.IsZero() {
			t.intended.Add(end.Sub(p.intended))
		}
		t.add(&p.Entry, got, s.cfg.Examples)
	})
}

func (s *Sender) count(f func(*sendTally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.tally)
}

func (t *sendTally) fail(target string, err error) {
	kind := kindOf(err)
	if t.errors[kind]++; t.errors[kind] == 1 {
		t.example[kind] = whatif.Printable(target) + ": " + err.Error()
	}
}

func (t *sendTally) add(e *whatif.Entry, got answer, examples int) {
	t.answered++
	t.bytes += got.bytes
	t.codes[got.code]++
	if got.origin {
		t.fromOrigin++
	}
	if e.Method == whatif.Tunnel {
		t.tunnels++
	}
	if secure(e) {
		t.plain++
	}
	if e.Status == 0 {
		return
	}
	t.compared++
	if e.Status == got.code {
		t.same++
		return
	}
	c := t.changes[[2]int{e.Status, got.code}]
	if c == nil {
		c = &Change{Was: e.Status, Is: got.code}
		t.changes[[2]int{e.Status, got.code}] = c
	}
	c.Count++
	if target := e.Target(); len(c.Examples) < examples && !slices.Contains(c.Examples, target) {
		c.Examples = append(c.Examples, target)
	}
}

// exchange sends a request and reads the whole response. The gateway may close a kept-alive
// connection; then exchange retries once, unless the request could have an effect twice (RFC
// 9110 section 9.2.2).
func (w *worker) exchange(e *whatif.Entry) (answer, error) {
	fresh := w.nc == nil
	got, err := w.once(e)
	again := e.Method != http.MethodPost && e.Method != http.MethodPatch
	if err != nil && again && !fresh && got.code == 0 && w.ctx.Err() == nil && (errors.Is(err, io.EOF) || kindOf(err) == "reset") {
		w.hangUp()
		got, err = w.once(e)
	}
	if err != nil {
		w.hangUp()
	}
	return got, err
}

func (w *worker) once(e *whatif.Entry) (got answer, err error) {
	if w.nc == nil {
		if err := w.dial(); err != nil {
			return got, err
		}
	}
	if err := w.nc.SetDeadline(time.Now().Add(w.s.cfg.Timeout)); err != nil {
		return got, err
	}
	if err := w.write(e); err != nil {
		return got, err
	}
	if _, err := w.br.Peek(1); err != nil {
		return got, err // io.EOF: closed without an answer
	}
	r, err := http.ReadResponse(w.br, &http.Request{Method: e.Method})
	if err != nil {
		return got, err
	}
	defer r.Body.Close()
	got = answer{code: r.StatusCode, origin: r.Header.Get(marker) != ""}
	if e.Method == whatif.Tunnel && r.StatusCode == http.StatusOK {
		w.hangUp() // opened: the log contains nothing else about it
		return got, nil
	}
	got.bytes, err = io.Copy(io.Discard, r.Body)
	if r.Close {
		w.hangUp()
	}
	return got, err
}

// secure reports whether an entry used TLS. It is sent without: a proxy is not asked for https
// in clear text, and the origin has no certificates for all hosts. Except for the scheme,
// filtering is the same.
func secure(e *whatif.Entry) bool { return strings.HasPrefix(e.URL, "https:") }

// maxSent limits the body of a request.
const maxSent = 16 << 20

// write sends the request in absolute form, as browsers do to a proxy (RFC 9112 section
// 3.2.2), with the data in the log.
func (w *worker) write(e *whatif.Entry) error {
	b := w.head[:0]
	host := e.Target()
	target := host
	if e.URL != "" {
		var path string
		_, rest, _ := strings.Cut(e.URL, "://")
		host, path, _ = strings.Cut(rest, "/")
		if secure(e) {
			host = strings.TrimSuffix(host, ":443")
		}
		target = "http://" + host + "/" + path
	}
	b = append(b, e.Method+" "+target+" HTTP/1.1\r\nHost: "+host+"\r\n"...)
	b = field(b, "User-Agent", e.Agent)
	b = field(b, "Referer", e.Referer)
	sent := int64(0)
	if e.Method != whatif.Tunnel {
		b = append(b, "Accept-Encoding: gzip\r\n"...)
		switch e.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			sent = min(e.Sent, maxSent)
			b = append(strconv.AppendInt(append(b, "Content-Length: "...), sent, 10), "\r\n"...)
		}
	}
	if w.s.cfg.Origin != nil {
		b = append(append(append(b, marker+": "...), marking(e)...), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	w.head = b
	if _, err := w.nc.Write(b); err != nil {
		return err
	}
	for sent > 0 {
		n, err := w.nc.Write(filler[:min(sent, int64(len(filler)))])
		if err != nil {
			return err
		}
		sent -= int64(n)
	}
	return nil
}

// field appends a field with a value from the log, as a single line.
func field(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, name+": "...)
	for i := range min(len(value), 4096) {
		c := value[i]
		if c < ' ' && c != '\t' || c == 0x7f {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, "\r\n"...)
}
