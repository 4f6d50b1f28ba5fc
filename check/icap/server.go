//go:build !small

package icap

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	wire "shuultuur/lib/message/icap"
	"shuultuur/lib/places"
)

const (
	reqmod  = "REQMOD"
	respmod = "RESPMOD"

	probeEvery  = 250 * time.Millisecond // interval of probes of a failed server
	usualTTL    = time.Minute            // of OPTIONS without Options-TTL
	longestTTL  = time.Hour
	mostPreview = 64 << 10
)

// A failure is an error of a server: it could not be queried, or answered with an error.
type failure struct {
	s    *server
	err  error
	gone bool // unreachable
	// stale means that the connection was kept, and nothing was answered on it.
	stale bool
}

func (f *failure) Error() string { return "ask " + f.s.url + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// A statusError is an ICAP status that reports an error.
type statusError struct {
	status int
	text   string
}

// isBusy reports whether err is that of a server that has too much to do (RFC 3507 section 4.3.3).
func isBusy(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == 503
}

func (e *statusError) Error() string { return fmt.Sprintf("the server answers %q", e.text) }

// A server is one ICAP service with its unused connections and its OPTIONS.
type server struct {
	url, host, address string
	secure             bool
	tls                *tls.Config
	connect            time.Duration
	most               int
	keeper             *keeper

	gate    places.Gate
	idle    chan *link
	asking  chan struct{} // held while OPTIONS are requested
	options atomic.Pointer[options]
	down    atomic.Pointer[failure] // why it is not used; a goroutine probes it
	renew   atomic.Bool             // a goroutine requests OPTIONS
}

// newServer parses the URL of a service.
func newServer(at string, most int, connect time.Duration) (*server, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "icap" && u.Scheme != "icaps" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf(`%q is not an ICAP service; write it like "icap://127.0.0.1:1344/avscan"`, at)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"icap": "1344", "icaps": "11344"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("%q has no valid port", at)
	}
	s := &server{url: at, host: u.Hostname(), address: net.JoinHostPort(u.Hostname(), port), secure: u.Scheme == "icaps", connect: connect, most: most, idle: make(chan *link, most), asking: make(chan struct{}, 1)}
	s.gate.Limit(most)
	return s, nil
}

// A link is a connection to a server.
type link struct {
	net.Conn
	r     *bufio.Reader
	stale bool // it was kept, and nothing has been answered on it since
}

func (s *server) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, s.connect)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, &failure{s: s, err: fmt.Errorf("connecting: %w; is the server running?", err), gone: true}
	}
	if s.secure {
		t := tls.Client(c, s.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, &failure{s: s, err: fmt.Errorf("TLS handshake: %w; does the server speak TLS on this port, and does ca have the root of its certificate?", err), gone: true}
		}
		c = t
	}
	return &link{Conn: c, r: bufio.NewReaderSize(c, wire.MaxLine)}, nil
}

// takeIdle returns a kept connection, nil if there is none.
func (s *server) takeIdle() *link {
	select {
	case l := <-s.idle:
		l.stale = true
		return l
	default:
		return nil
	}
}

// putIdle keeps a connection for the next message.
func (s *server) putIdle(l *link) {
	if !s.keeper.ended() && l.r.Buffered() == 0 && l.SetDeadline(time.Time{}) == nil {
		select {
		case s.idle <- l:
			return
		default:
		}
	}
	l.Close()
}

func (s *server) close() {
	for {
		select {
		case l := <-s.idle:
			l.Close()
		default:
			return
		}
	}
}

// judge handles an error of a server, and returns it. One that is gone is not used until a probe
// succeeds. One that is busy gets fewer connections. Other failures may be due to the message, so
// judge only requests OPTIONS.
func (s *server) judge(ctx context.Context, err error) error {
	var f *failure
	if !errors.As(err, &f) || errors.Is(ctx.Err(), context.Canceled) { // the client has closed its connection
		return err
	}
	var e *statusError
	errors.As(err, &e)
	switch {
	case isBusy(err):
		s.close() // an unused connection may take the place of one that is needed
		s.gate.Busy()
	case f.gone:
		s.close() // the other connections will not work either
		if s.down.CompareAndSwap(nil, f) && !s.keeper.start(s.probe) {
			s.down.Store(nil)
		}
	case e == nil:
		s.learnLater()
	}
	return err
}

// probe requests OPTIONS until the server answers.
func (s *server) probe(ctx context.Context) {
	defer s.down.Store(nil)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.learn(ctx); err == nil || isBusy(err) {
			return
		}
	}
}

// learnLater requests OPTIONS in the background.
func (s *server) learnLater() {
	if s.down.Load() != nil || !s.renew.CompareAndSwap(false, true) {
		return
	}
	if !s.keeper.start(func(ctx context.Context) {
		defer s.renew.Store(false)
		if err := s.judge(ctx, s.learn(ctx)); isBusy(err) { // judge starts a probe if needed
			if o := s.options.Load(); o != nil {
				later := *o
				later.expires = time.Now().Add(places.BusyFor)
				s.options.CompareAndSwap(o, &later)
			}
		}
	}) {
		s.renew.Store(false)
	}
}

// service returns the OPTIONS of the server. Expired ones are used while they are renewed.
func (s *server) service(ctx context.Context) (*options, error) {
	o := s.options.Load()
	if o == nil {
		if err := s.first(ctx); err != nil {
			return nil, s.judge(ctx, err)
		}
		return s.options.Load(), nil
	}
	if time.Now().After(o.expires) {
		s.learnLater()
	}
	return o, nil
}

// first requests OPTIONS while none are known: one caller requests them, the others wait.
func (s *server) first(ctx context.Context) error {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return &failure{s: s, err: ctx.Err()}
	}
	if s.options.Load() != nil {
		return nil
	}
	return s.learn(ctx)
}

// learn requests OPTIONS on a new connection.
func (s *server) learn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.connect)
	defer cancel()
	if unused := s.takeIdle(); unused != nil { // the server counts it, too
		unused.Close()
	}
	l, err := s.dial(ctx)
	if err != nil {
		return err
	}
	end, _ := ctx.Deadline()
	_ = l.SetDeadline(end) // a failure shows in the read
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err = fmt.Fprintf(l, "OPTIONS %s ICAP/1.0\r\nHost: %s\r\nUser-Agent: Shuultuur\r\nAllow: 204\r\n\r\n", s.url, s.address)
	var r *reply
	if err == nil {
		r, err = readReply(l.r, nil, nil)
	}
	if err == nil && r.status != 200 {
		err = &statusError{r.status, r.line}
	}
	if err != nil {
		l.Close()
		var e *statusError
		return &failure{s: s, err: fmt.Errorf("OPTIONS: %w", err), gone: !errors.As(err, &e)}
	}
	o := readOptions(r, time.Now())
	s.gate.Limit(min(s.most, o.most))
	s.options.Store(o)
	if r.close || !stop() {
		l.Close()
	} else {
		s.putIdle(l)
	}
	return nil
}

// refreshOptions requests OPTIONS again if the tag of a reply differs from theirs.
func (s *server) refreshOptions(tag string) {
	if o := s.options.Load(); o != nil && tag != "" && tag != o.tag {
		again := *o
		again.tag, again.expires = tag, time.Time{}
		s.options.CompareAndSwap(o, &again)
	}
}

// options are the properties of a service (RFC 3507 section 4.10.2).
type options struct {
	reqmod, respmod bool
	preview         int // bytes, -1 for none
	tag             string
	expires         time.Time
	most            int
	include         []string          // fields that it asks for, lower case
	transfer        map[string]string // by extension of the path; "*" for all others
}

func readOptions(r *reply, now time.Time) *options {
	o := &options{preview: -1, tag: r.fields["istag"], most: 1 << 20, transfer: map[string]string{}}
	methods := strings.ToUpper(r.fields["methods"])
	o.reqmod, o.respmod = strings.Contains(methods, reqmod), strings.Contains(methods, respmod)
	if !o.reqmod && !o.respmod { // it does not say which
		o.reqmod, o.respmod = true, true
	}
	if n, err := strconv.Atoi(r.fields["preview"]); err == nil && n >= 0 {
		o.preview = min(n, mostPreview)
	}
	if n, err := strconv.Atoi(r.fields["max-connections"]); err == nil && n > 0 {
		o.most = min(n, o.most)
	}
	ttl := usualTTL
	if n, err := strconv.Atoi(r.fields["options-ttl"]); err == nil && n >= 0 {
		ttl = min(max(time.Duration(min(n, 1<<20))*time.Second, time.Second), longestTTL)
	}
	o.expires = now.Add(ttl)
	for name := range strings.SplitSeq(strings.ToLower(r.fields["x-include"]), ",") {
		if name = strings.TrimSpace(name); name != "" {
			o.include = append(o.include, name)
		}
	}
	for _, how := range []string{"transfer-preview", "transfer-ignore", "transfer-complete"} {
		for ext := range strings.SplitSeq(strings.ToLower(r.fields[how]), ",") {
			if ext = strings.TrimPrefix(strings.TrimSpace(ext), "."); ext != "" {
				o.transfer[ext] = how
			}
		}
	}
	return o
}

func (o *options) does(method string) bool {
	if method == reqmod {
		return o.reqmod
	}
	return o.respmod
}

// how returns how to send files with the extension of a URL.
func (o *options) how(at string) string {
	if len(o.transfer) == 0 {
		return ""
	}
	at, _, _ = strings.Cut(at, "?")
	if _, rest, ok := strings.Cut(at, "://"); ok {
		_, at, _ = strings.Cut(rest, "/")
	}
	if how := o.transfer[strings.ToLower(strings.TrimPrefix(path.Ext(at), "."))]; how != "" && path.Ext(at) != "" {
		return how
	}
	return o.transfer["*"]
}

func (o *options) ignores(at string) bool { return o.how(at) == "transfer-ignore" }

// previewOf returns the bytes of a body in the preview, -1 for no preview.
func (o *options) previewOf(at string) int {
	if o.how(at) == "transfer-complete" {
		return -1
	}
	return o.preview
}

// A keeper owns the goroutines that probe servers.
type keeper struct {
	ctx  context.Context
	stop context.CancelFunc
	mu   sync.Mutex
	work sync.WaitGroup
}

func newKeeper() *keeper {
	k := &keeper{}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// start runs f in a goroutine, and reports false if the keeper has ended.
func (k *keeper) start(f func(context.Context)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended() {
		return false
	}
	k.work.Go(func() { f(k.ctx) })
	return true
}

func (k *keeper) ended() bool { return k.ctx.Err() != nil }

// end stops the goroutines and waits for them.
func (k *keeper) end() {
	k.mu.Lock()
	k.stop()
	k.mu.Unlock()
	k.work.Wait()
}
