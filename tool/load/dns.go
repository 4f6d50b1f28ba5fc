package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"shuultuur/lib/platform"
)

// Limits of a run against a name server, in addition to those of HTTP.
const (
	MaxSockets = 128
	maxIDs     = 1 << 16 // unanswered queries on one socket

	defaultWindow  = 100
	defaultSockets = 4

	// lookEvery is the interval at which a socket checks for overdue answers.
	lookEvery = 50 * time.Millisecond
)

// DNSConfig configures the queries, the way to send them, and the end of the run.
type DNSConfig struct {
	// Server is host[:port] for UDP, tcp://host[:port], tls://host[:port]
	// (DNS over TLS), or https://host[:port]/path (DNS over HTTPS).
	Server string

	Queries *Queries
	Random  bool   // Queries is one of RandomQueries
	Seed    uint64 // same seed, same random names

	// Exactly one of these is needed.
	Window int     // constant number of unanswered queries
	Rate   float64 // open loop: queries per second, sent on schedule

	// Sockets is the number of sockets that share the queries; 0 means 4, but at most one per
	// query of the window.
	Sockets int

	// The run ends at whichever limit comes first; one of them is needed.
	Count    int64
	Duration time.Duration

	Timeout time.Duration // after which a query counts as lost; 0 means 5 s
	Roots   *x509.CertPool
	Allow   []string // hosts that may be queried although they are not loopback

	Progress io.Writer // one line per second while running; may be nil
}

// DNS is a validated DNSConfig. It can run once.
//
// Each socket is a flow, with a slot for every ID without an answer. In window mode, one
// goroutine per flow sends as many queries as it has just read answers. In the open loop, one
// goroutine follows the schedule and passes bursts of due queries to the flows in turn, which
// only read.
type DNS struct {
	cfg  DNSConfig
	over string // udp, tcp, tls, https
	addr string // the address to dial
	name string // for TLS

	next  atomic.Int64 // window: number of the next query
	left  atomic.Int64 // window: queries left to send
	flows []*flow
	start time.Time
	sent  chan struct{} // closed when the last query was sent
	until time.Time     // when sent is closed: deadline for answers
}

// NewDNS validates the settings and resolves the server. It refuses a server that is neither
// loopback nor allowed.
func NewDNS(cfg DNSConfig) (*DNS, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &DNS{cfg: cfg, over: "udp", sent: make(chan struct{})}
	hostport, port := cfg.Server, "53"
	if scheme, rest, ok := strings.Cut(cfg.Server, "://"); ok {
		g.over, hostport = scheme, strings.TrimSuffix(rest, "/")
	}
	switch g.over {
	case "udp", "tcp":
	case "tls":
		port = "853"
	case "https":
		u, err := url.Parse(cfg.Server)
		if err != nil {
			return nil, fmt.Errorf("server %q is not a URL: %w", cfg.Server, errors.Unwrap(err))
		}
		hostport, port = u.Host, "443"
	default:
		return nil, fmt.Errorf("server %q: %q is not one of udp, tcp, tls, https", cfg.Server, g.over)
	}
	host, p, err := net.SplitHostPort(hostport)
	if err != nil {
		host, p = strings.Trim(hostport, "[]"), port
	}
	hosts := guard{allow: cfg.Allow, known: map[string]netip.Addr{}}
	addr, err := hosts.admit(host)
	if err != nil {
		return nil, err
	}
	g.addr, g.name = net.JoinHostPort(addr.String(), p), host
	g.left.Store(math.MaxInt64)
	if cfg.Count > 0 {
		g.left.Store(cfg.Count)
	}
	return g, nil
}

func (c *DNSConfig) check() error {
	switch {
	case c.Queries == nil || c.Queries.Len() == 0:
		return errors.New("no queries to send")
	case (c.Window != 0) == (c.Rate != 0):
		return errors.New("one of window and rate is needed")
	case c.Window < 0 || c.Rate < 0 || c.Rate > MaxRate:
		return fmt.Errorf("window must be at least 1, rate between 1 and %d", MaxRate)
	case c.Sockets < 0 || c.Sockets > MaxSockets:
		return fmt.Errorf("sockets must be between 1 and %d", MaxSockets)
	case c.Count == 0 && c.Duration == 0:
		return errors.New("one of count and seconds is needed: a run must end")
	case c.Count < 0 || c.Count > MaxFetches:
		return fmt.Errorf("count must be between 1 and %d", MaxFetches)
	case c.Duration < 0 || c.Duration > MaxDuration || c.Timeout < 0 || c.Timeout > time.Hour:
		return fmt.Errorf("seconds must be between 0 and %g", MaxDuration.Seconds())
	}
	if c.Sockets == 0 {
		c.Sockets = defaultSockets
		if c.Window > 0 {
			c.Sockets = min(c.Sockets, c.Window)
		}
	}
	if c.Window > 0 && c.Window < c.Sockets {
		return fmt.Errorf("a window of %d is not enough for %d sockets", c.Window, c.Sockets)
	}
	if c.Window > maxIDs*c.Sockets {
		return fmt.Errorf("a window of %d needs more than %d sockets", c.Window, c.Sockets)
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	return nil
}

// Run sends the queries and waits until the answers have arrived or are overdue. The report of
// an interrupted run covers the queries sent so far. It must be called only once.
func (g *DNS) Run(ctx context.Context) (*DNSReport, error) {
	if g.flows != nil {
		return nil, errors.New("a generator runs once")
	}
	g.start = time.Now()
	cpu := platform.CPU()
	for i := range g.cfg.Sockets {
		f := newFlow(g, i)
		l, err := g.dial(ctx, f.onQueryFailure)
		if err != nil {
			for _, f := range g.flows {
				f.link.close()
			}
			return nil, fmt.Errorf("connecting to %s: %w", g.cfg.Server, err)
		}
		f.link = l
		g.flows = append(g.flows, f)
	}
	g.start = time.Now()
	sending := ctx
	if g.cfg.Duration > 0 {
		var cancel context.CancelFunc
		sending, cancel = context.WithTimeout(ctx, g.cfg.Duration)
		defer cancel()
	}
	var flows sync.WaitGroup
	for _, f := range g.flows {
		flows.Go(func() { f.run(ctx, sending) })
	}
	w := newDNSWatch(g)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		w.run(over)
	}()
	unsent := int64(0)
	if g.cfg.Rate > 0 {
		unsent = g.schedule(ctx)
	}
	flows.Wait()
	close(over)
	<-watched
	return g.report(platform.CPU()-cpu, unsent, w.series), nil
}

// schedule sends queries on time until ctx is done, and returns how many were due and could
// not be sent.
func (g *DNS) schedule(ctx context.Context) int64 {
	defer func() {
		g.until = time.Now().Add(g.cfg.Timeout)
		close(g.sent)
	}()
	gap := float64(time.Second) / g.cfg.Rate
	all, end := int64(math.MaxInt64), time.Duration(math.MaxInt64)
	if g.cfg.Count > 0 {
		all = g.cfg.Count
	}
	if g.cfg.Duration > 0 {
		all = min(all, int64(math.Round(float64(g.cfg.Duration)/gap)))
		// The last queries are due just before the end, and may be sent just after it.
		end = g.cfg.Duration + 20*time.Millisecond
	}
	turn, sent, due := 0, int64(0), int64(0)
	for sent < all && ctx.Err() == nil {
		now := time.Since(g.start)
		due = min(all, int64(float64(now)/gap)+1)
		if now > end {
			break
		}
		if due == sent {
			// At high rates, wait a little to collect a burst.
			sleepUntil(ctx, g.start.Add(max(time.Duration(float64(sent)*gap), now+20*time.Microsecond)))
			continue
		}
		went := 0
		for tries := 0; went == 0 && tries < len(g.flows); tries++ {
			went = g.flows[turn].send(sent, int(min(due-sent, burst)), gap)
			turn = (turn + 1) % len(g.flows)
		}
		sent += int64(went)
		if went == 0 {
			sleepUntil(ctx, time.Now().Add(time.Millisecond))
		}
	}
	return due - sent
}

// slot is a query without an answer; its ID is its index.
type slot struct {
	sent     int64 // nanoseconds since the start; 0 if the slot is free
	intended int64
	n        int64 // number of the query
}

// flow is one socket.
type flow struct {
	g      *DNS
	window int

	linkMu sync.Mutex // guards link against the sender of the open loop
	link   link

	batch [burst][]byte // used by the sender only
	space [burst][maxQuery]byte
	ids   [burst]uint16

	mu          sync.Mutex // guards the following
	slots       []slot
	nextID      uint16
	outstanding int
	down        bool // the link is broken and not reopened yet
	counts      dnsCounts
	recent      *hdrhistogram.Histogram // since the last sample of the watch
	recentLost  int64
}

// dnsCounts are the sums of a flow.
type dnsCounts struct {
	sent, completed, lost, unfinished int64
	unexpected, truncated, reconnects int64
	bytesSent, bytesReceived          int64
	rcodes                            [16]int64
	errors                            [classes]int64
	example                           [classes]error
	total, intended                   dist
	last                              int64 // nanoseconds since the start: time of the last query or answer, and of the end of sending
	lostTime                          int64 // total waiting time of lost queries in nanoseconds
}

func newFlow(g *DNS, i int) *flow {
	f := &flow{g: g, slots: make([]slot, maxIDs), recent: hdrhistogram.New(1, histMax, histDigits)}
	if g.cfg.Window > 0 {
		// More than the window, so that an ID is not reused at once, but few enough to be
		// checked often.
		f.slots = f.slots[:min(maxIDs, max(4096, 8<<bits.Len(uint(g.cfg.Window/g.cfg.Sockets))))]
		f.window = g.cfg.Window / g.cfg.Sockets
		if i < g.cfg.Window%g.cfg.Sockets {
			f.window++
		}
	}
	return f
}

// run reads answers, and in window mode sends queries, until the run is over.
func (f *flow) run(ctx, sending context.Context) {
	defer func() { f.current().close() }()
	done, until := false, time.Time{}
	var looked time.Time
	room, more := false, false // room in the window; there may be more answers
	for {
		// Read available answers before sending more. With a large window, unread answers
		// would fill it, and the system's memory.
		if room = false; !done && f.window > 0 && !more {
			room = f.fill()
		}
		if !done && f.finished(sending) {
			done = true
			f.recordEnd()
			if until = time.Now().Add(f.g.cfg.Timeout); f.g.cfg.Rate > 0 {
				until = f.g.until
			}
		}
		now := time.Now()
		if over := ctx.Err() != nil; over || now.Sub(looked) >= lookEvery {
			if over && !done {
				f.recordEnd()
			}
			left := f.dropOverdue(now, over)
			if over || done && left == 0 {
				return
			}
			looked = now
			_ = f.link.deadline(now.Add(lookEvery)) // receive reports a closed link
		} else if done && f.idle() {
			return
		}
		answers, err := f.link.receive(!room && !more)
		more = len(answers) == burst
		switch {
		case err == nil:
			f.take(answers)
		case errors.Is(err, os.ErrDeadlineExceeded):
		default:
			f.onReceiveError(ctx, err)
		}
		if done && time.Now().After(until.Add(lookEvery)) {
			f.dropOverdue(until.Add(time.Hour), false)
			return
		}
	}
}

// finished reports whether sending has ended.
func (f *flow) finished(sending context.Context) bool {
	if f.g.cfg.Rate > 0 {
		select {
		case <-f.g.sent:
			return true
		default:
			return false
		}
	}
	return sending.Err() != nil || f.g.left.Load() <= 0
}

func (f *flow) current() link {
	f.linkMu.Lock()
	defer f.linkMu.Unlock()
	return f.link
}

func (f *flow) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outstanding == 0
}

// fill sends a burst, or as many as the window permits, and reports whether there may be room
// for more.
func (f *flow) fill() bool {
	f.mu.Lock()
	free := f.window - f.outstanding
	f.mu.Unlock()
	n := min(free, burst)
	if left := f.g.left.Add(-int64(n)); left < 0 {
		// Fewer queries were left than taken: return the rest.
		back := min(int64(n), -left)
		f.g.left.Add(back)
		n -= int(back)
	}
	if n <= 0 {
		return false
	}
	went := f.send(f.g.next.Add(int64(n))-int64(n), n, 0)
	f.g.left.Add(int64(n - went))
	return went == burst && free > burst
}

// send sends up to n queries, beginning with number first, and returns how many were sent. gap
// is the time between two in the open loop, otherwise 0.
func (f *flow) send(first int64, n int, gap float64) int {
	queries := f.g.cfg.Queries
	l := f.current()
	now := int64(time.Since(f.g.start)) | 1
	f.mu.Lock()
	built := 0
	mask := uint16(len(f.slots) - 1)
	for ; built < n && f.outstanding < len(f.slots)-1 && !f.down; built++ {
		for f.slots[f.nextID].sent != 0 {
			f.nextID = (f.nextID + 1) & mask
		}
		number := first + int64(built)
		q := append(f.space[built][:0], queries.at(int(number%int64(queries.Len())))...)
		if f.g.cfg.Random {
			scramble(q, f.g.cfg.Seed, uint64(number))
		}
		binary.BigEndian.PutUint16(q, f.nextID)
		f.batch[built], f.ids[built] = q, f.nextID
		s := &f.slots[f.nextID]
		s.sent, s.n, s.intended = now, number, now
		if gap > 0 {
			s.intended = int64(float64(number) * gap)
		}
		f.nextID = (f.nextID + 1) & mask
		f.outstanding++
	}
	f.mu.Unlock()
	if built == 0 {
		return 0
	}
	went, err := l.send(f.batch[:built])
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !f.down {
		f.count(err)
		if f.g.over != "udp" {
			l.close() // receive will notice
		}
	}
	// There can be no answer to a query that was not sent, so its slot is unchanged, unless
	// the link broke and all were given up.
	for _, id := range f.ids[went:built] {
		if f.slots[id].sent == now {
			f.slots[id].sent = 0
			f.outstanding--
		}
	}
	f.counts.sent += int64(went)
	for _, q := range f.batch[:went] {
		f.counts.bytesSent += int64(len(q))
	}
	f.counts.last = max(f.counts.last, now)
	return went
}

// take assigns answers to queries.
func (f *flow) take(answers [][]byte) {
	now := int64(time.Since(f.g.start))
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.counts
	for _, b := range answers {
		a, ok := readAnswer(b)
		if !ok || int(a.id) >= len(f.slots) {
			c.unexpected++
			continue
		}
		s := &f.slots[a.id]
		if s.sent == 0 || a.question != nil && !f.isQuestionOf(s, a.question) || time.Duration(now-s.sent) > f.g.cfg.Timeout {
			c.unexpected++
			continue
		}
		c.completed++
		c.bytesReceived += int64(len(b))
		c.rcodes[a.rcode]++
		if a.truncated {
			c.truncated++
		}
		c.total.add(time.Duration(now - s.sent))
		if f.g.cfg.Rate > 0 {
			c.intended.add(time.Duration(now - s.intended))
		}
		_ = f.recent.RecordValue(min((now-s.intended)/int64(time.Microsecond), histMax))
		s.sent = 0
		f.outstanding--
	}
	c.last = max(c.last, now)
}

// isQuestionOf reports whether the question is that of the query.
func (f *flow) isQuestionOf(s *slot, question []byte) bool {
	q := f.g.cfg.Queries
	want := q.at(int(s.n % int64(q.Len())))
	if f.g.cfg.Random {
		var query [maxQuery]byte
		want = append(query[:0], want...)
		scramble(want, f.g.cfg.Seed, uint64(s.n))
	}
	// Servers return names as sent; some in lower case.
	return bytes.Equal(want[dnsHeader:], question) || bytes.EqualFold(want[dnsHeader:], question)
}

// dropOverdue gives up overdue queries, or when the run is over all of them, and returns how many
// still wait.
func (f *flow) dropOverdue(now time.Time, over bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outstanding == 0 {
		return 0
	}
	oldest := int64(now.Sub(f.g.start) - f.g.cfg.Timeout)
	for i := range f.slots {
		s := &f.slots[i]
		switch {
		case s.sent == 0:
			continue
		case s.sent < oldest:
			f.countLost(s.sent)
		case over:
			f.counts.unfinished++
		default:
			continue
		}
		s.sent = 0
		f.outstanding--
	}
	return f.outstanding
}

// countLost counts a query without an answer. The caller holds mu.
func (f *flow) countLost(sent int64) {
	f.counts.lost++
	f.recentLost++
	f.counts.lostTime += min(int64(time.Since(f.g.start)), sent+int64(f.g.cfg.Timeout)) - sent
}

// recordEnd records the end of sending, so that a silent server does not seem faster.
func (f *flow) recordEnd() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.last = max(f.counts.last, int64(time.Since(f.g.start)))
}

// count adds an error to its class. The caller holds mu.
func (f *flow) count(err error) {
	c := classify(err)
	if errors.Is(err, io.EOF) {
		c = closed
	}
	if f.counts.errors[c]++; f.counts.example[c] == nil {
		f.counts.example[c] = err
	}
}

// onQueryFailure is called when a query fails.
func (f *flow) onQueryFailure(id uint16, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(err)
	if s := &f.slots[id]; s.sent != 0 {
		f.countLost(s.sent)
		s.sent = 0
		f.outstanding--
	}
}

// onReceiveError handles an error of receive: over UDP the next answer may be good; a stream is
// reopened.
func (f *flow) onReceiveError(ctx context.Context, err error) {
	f.mu.Lock()
	f.count(err)
	if f.g.over == "udp" && errors.Is(err, platform.ECONNREFUSED) {
		f.mu.Unlock()
		return // previous queries were answered by "port unreachable"
	}
	f.down = true
	f.link.close()
	for i := range f.slots {
		if f.slots[i].sent != 0 {
			f.countLost(f.slots[i].sent)
			f.slots[i].sent = 0
		}
	}
	f.outstanding = 0
	f.counts.reconnects++
	f.mu.Unlock()
	// Try a server that accepts no connections ten times a second.
	if !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
		return
	}
	l, err := f.g.dial(ctx, f.onQueryFailure)
	if err != nil {
		f.mu.Lock()
		f.count(err)
		f.mu.Unlock()
		return // receive on the closed link will return here
	}
	_ = l.deadline(time.Now().Add(lookEvery))
	f.linkMu.Lock()
	f.link = l
	f.linkMu.Unlock()
	f.mu.Lock()
	f.down = false
	f.mu.Unlock()
}

// dial makes a link to the server.
func (g *DNS) dial(ctx context.Context, fail func(uint16, error)) (link, error) {
	d := net.Dialer{Timeout: g.cfg.Timeout}
	conf := &tls.Config{RootCAs: g.cfg.Roots, ServerName: g.name, MinVersion: tls.VersionTLS12}
	switch g.over {
	case "udp":
		c, err := d.DialContext(ctx, "udp", g.addr)
		if err != nil {
			return nil, err
		}
		u, ok := c.(*net.UDPConn)
		if !ok {
			c.Close()
			return nil, fmt.Errorf("dial %s: a %T", g.addr, c)
		}
		_ = u.SetReadBuffer(4 << 20) // any size that the system permits is fine
		return newUDP(u)
	case "tcp":
		c, err := d.DialContext(ctx, "tcp", g.addr)
		if err != nil {
			return nil, err
		}
		return newStream(c), nil
	case "tls":
		conf.NextProtos = []string{"dot"}
		c, err := (&tls.Dialer{NetDialer: &d, Config: conf}).DialContext(ctx, "tcp", g.addr)
		if err != nil {
			return nil, err
		}
		return newStream(c), nil
	case "https":
		hctx, cancel := context.WithCancel(ctx)
		tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: conf, DisableCompression: true, MaxConnsPerHost: 1,
			// Dial the address that was resolved and allowed.
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", g.addr) }}
		return &overHTTP{ctx: hctx, cancel: cancel, client: &http.Client{Transport: tr, CheckRedirect: noRedirect}, url: g.cfg.Server,
			fail: fail, wait: g.cfg.Timeout, back: make(chan []byte, burst)}, nil
	}
	return nil, errors.ErrUnsupported
}
