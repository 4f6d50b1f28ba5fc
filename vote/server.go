package vote

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
	"shuultuur/text"
)

// A Log stores records. They are on disk when Append returns.
type Log interface {
	Append(ctx context.Context, records ...[]byte) error
}

// Parts are the parts that a Server needs.
type Parts struct {
	Log    Log
	Sealer *Sealer
	TLS    *tls.Config // nil disables TLS
	Limit  Rate        // for the votes of one user or address; zero is unlimited
	Login  bool        // only users who have logged in may vote
	Node   string      // the name of this node, stored in its votes
	Secret string      // lets other nodes forward their votes here; "" refuses them
	// State returns the state of a vote. It is nil on a node that forwards its
	// votes; that node links to the one that counts.
	State func(ctx context.Context, id ID) (State, error)
	// Who identifies a client by its address and the field Authorization. It may
	// be nil.
	Who         func(addr, authorization string) Voter
	Texts       text.Choice   // for pages
	Contact     func() string // whom people ask; nil if nobody is named
	Connections int           // concurrent connections; default 10,000
	Logger      *slog.Logger
}

// A State is the state of a vote as its voter sees it.
type State struct {
	ID       string    `json:"id"`
	State    string    `json:"state"` // "accepted", "counted" or "decided"
	Decision *Decision `json:"decision,omitempty"`
}

// ErrUnknown reports that there is no vote with an identifier.
var ErrUnknown = errors.New("no vote with this id is known; it may not be counted yet")

// A Server accepts votes over HTTP, plain or with TLS on the same port. It does
// not use net/http, which would cost several times as much per vote as all the
// rest.
type Server struct {
	Parts
	sealer  *Sealer
	login   bool
	node    string
	limit   limiter
	slots   atomic.Int64
	leaving atomic.Bool // another process accepts connections
	counts  *metric.CounterVec
	taken   metric.Counter
	waiting sync.WaitGroup
}

// Times of a connection.
const (
	idle     = 75 * time.Second // between requests
	oneRead  = 20 * time.Second // for reading one request
	oneWrite = 20 * time.Second
)

const (
	defaultConnections = 10_000
	headSize           = 16 << 10
	maxForward         = 8 << 20
)

// NewServer returns a server.
func NewServer(p Parts) *Server {
	if p.Connections == 0 {
		p.Connections = defaultConnections
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{Parts: p, sealer: p.Sealer, login: p.Login, node: p.Node, limit: limiter{rate: p.Limit, used: map[string]*allowance{}}}
	s.counts = metric.NewCounterVec("shuultuur_votes_refused_total", "Requests with votes that were refused, by status.", "status")
	s.taken = metric.NewCounter("shuultuur_votes_acknowledged_total", "Votes that were acknowledged; one that is sent twice counts twice here.")
	return s
}

// Collect implements [metric.Collector].
func (s *Server) Collect(ch chan<- metric.Metric) { s.counts.Collect(ch); s.taken.Collect(ch) }

// Leave ends each connection after its next answer: another process accepts new ones. The listeners are
// closed by the caller.
func (s *Server) Leave() { s.leaving.Store(true) }

// Serve accepts connections until ctx ends. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	defer ln.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		nc, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || s.leaving.Load() {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) { // a temporary error, such as too many open files
				s.Logger.Warn("a connection with votes cannot be accepted", "error", err)
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
				continue
			}
			return fmt.Errorf("accepting votes: %w", err)
		}
		if s.slots.Add(1) > int64(s.Connections) {
			s.slots.Add(-1)
			s.counts.With("503").Inc()
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(nc, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			nc.Close()
			continue
		}
		all.Go(func() {
			defer s.slots.Add(-1)
			defer nc.Close()
			hurry := context.AfterFunc(ctx, func() { _ = nc.SetReadDeadline(time.Now()) })
			defer hurry()
			s.serve(ctx, nc)
		})
	}
}

// A connection is that of one client.
type connection struct {
	net.Conn
	in   *message.Reader
	q    message.Request
	body []byte
	out  []byte
	from string
}

// A prefixedConn returns bytes that were read before TLS began, then those of the
// connection.
type prefixedConn struct {
	net.Conn
	first []byte
}

func (u *prefixedConn) Read(p []byte) (int, error) {
	if len(u.first) > 0 {
		n := copy(p, u.first)
		u.first = u.first[n:]
		return n, nil
	}
	return u.Conn.Read(p)
}

// recordHandshake is the first byte of a TLS connection.
const recordHandshake = 0x16

// serve serves one connection.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	c := &connection{Conn: nc, in: message.NewReader(nc, 4<<10, headSize)}
	c.from, _, _ = net.SplitHostPort(nc.RemoteAddr().String())
	_ = nc.SetReadDeadline(time.Now().Add(idle))
	first, err := c.in.Peek(1)
	if err != nil {
		return
	}
	if first[0] == recordHandshake && s.TLS != nil {
		secure := tls.Server(&prefixedConn{nc, bytes.Clone(c.in.Buffered())}, s.TLS)
		_ = nc.SetDeadline(time.Now().Add(oneRead))
		if secure.HandshakeContext(ctx) != nil {
			return
		}
		c.Conn = secure
		c.in.Reset(secure)
	}
	for ctx.Err() == nil {
		_ = nc.SetReadDeadline(time.Now().Add(idle))
		if !s.exchange(ctx, c) {
			return
		}
	}
}

// exchange reads a request and answers it. more reports whether another one may
// follow.
func (s *Server) exchange(ctx context.Context, c *connection) (more bool) {
	err := c.in.ReadRequest(&c.q)
	var bad *message.Error
	switch {
	case errors.As(err, &bad):
		s.answer(c, Answer{Status: bad.Status, Body: []byte(bad.Reason)}, false)
		return false
	case err != nil:
		return false
	}
	q := &c.q
	limit := int64(MaxBody)
	path, _, _ := strings.Cut(string(q.Path), "?")
	if path == forwardPath {
		limit = maxForward
	}
	c.body = c.body[:0]
	if q.Body != nil {
		if q.Length > limit {
			s.answer(c, Answer{Status: 413, Body: fmt.Appendf(nil, "a request has at most %d bytes", limit)}, false)
			return false
		}
		_ = c.SetReadDeadline(time.Now().Add(oneRead))
		if q.Expect {
			_ = c.SetWriteDeadline(time.Now().Add(oneWrite))
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return false
			}
		}
		var ok bool
		if c.body, ok = readBody(c.body, q.Body, limit); !ok {
			s.answer(c, Answer{Status: 413, Body: []byte("the request is too large or its body is cut off")}, false)
			return false
		}
	}
	get := func(name string) string { return string(q.Get(name)) }
	r := Request{Method: q.Method, Path: path, Type: get("Content-Type"), Key: get("Idempotency-Key"), Site: get("Sec-Fetch-Site"),
		Accept: get("Accept"), Language: get("Accept-Language"), Authorization: get("Authorization"), Body: c.body, From: c.from, Base: "/votes"}
	a := s.Answer(ctx, &r)
	return s.answer(c, a, !q.Close && ctx.Err() == nil && !s.leaving.Load())
}

func readBody(dst []byte, r io.Reader, limit int64) (_ []byte, ok bool) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case int64(len(dst)) > limit:
			return dst, false
		case errors.Is(err, io.EOF):
			return dst, true
		case err != nil:
			return dst, false
		}
	}
}

// answer writes an answer.
func (s *Server) answer(c *connection, a Answer, more bool) bool {
	b := append(c.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = append(append(b, ' '), http.StatusText(a.Status)...)
	b = append(b, "\r\nContent-Type: "...)
	if a.Type == "" {
		a.Type = "text/plain; charset=utf-8"
	}
	b = append(b, a.Type...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(a.Body)), 10)
	for _, f := range a.Fields() {
		b = append(append(append(append(b, "\r\n"...), f[0]...), ": "...), f[1]...)
	}
	if !more {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	if c.q.Method != "HEAD" {
		b = append(b, a.Body...)
	}
	c.out = b
	_ = c.SetWriteDeadline(time.Now().Add(oneWrite))
	_, err := c.Write(b)
	return err == nil && more
}

// A Request is a request that reached a [Server] or the proxy.
type Request struct {
	Method, Path  string
	Type, Key     string // Content-Type, Idempotency-Key
	Site, Accept  string // Sec-Fetch-Site
	Language      string // Accept-Language
	Authorization string
	Body          []byte
	From          string // the client's address
	Voter         *Voter // the client, if it is known
	Base          string // the path of votes, for links: "/votes"
}

// An Answer is the response to a [Request].
type Answer struct {
	Status   int
	Type     string // "" is plain text
	Body     []byte
	Location string
	Retry    time.Duration
}

// Fields returns the fields of the head, without type and length.
func (a *Answer) Fields() (all [][2]string) {
	if a.Location != "" {
		all = append(all, [2]string{"Location", a.Location})
	}
	if a.Retry > 0 {
		all = append(all, [2]string{"Retry-After", strconv.Itoa(int((a.Retry + time.Second - 1) / time.Second))})
	}
	switch {
	case a.Status == http.StatusMethodNotAllowed:
		all = append(all, [2]string{"Allow", "GET, HEAD, POST, OPTIONS"})
	case a.Status == http.StatusNoContent:
		all = append(all, [2]string{"Access-Control-Allow-Methods", "GET, POST"}, [2]string{"Access-Control-Allow-Headers", "Content-Type, Idempotency-Key"})
	}
	if strings.HasPrefix(a.Type, "text/html") {
		all = append(all, [2]string{"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"})
	}
	return append(all, [2]string{"X-Content-Type-Options", "nosniff"}, [2]string{"Cache-Control", "no-store"}, [2]string{"Access-Control-Allow-Origin", "*"})
}

const forwardPath = "/votes/forward"

// Answer answers a request. It returns when the votes are on disk.
func (s *Server) Answer(ctx context.Context, r *Request) Answer {
	var a Answer
	var err *refusal
	id, isState := strings.CutPrefix(r.Path, "/votes/")
	switch {
	case r.Path == forwardPath && r.Method == "POST":
		a, err = s.acceptForwarded(ctx, r)
	case r.Path == "/votes" && r.Method == "POST":
		a, err = s.votes(ctx, r)
	case isState && (r.Method == "GET" || r.Method == "HEAD"):
		a, err = s.state(ctx, r, id)
	case r.Method == "OPTIONS":
		return Answer{Status: http.StatusNoContent}
	case r.Path == "/votes" || isState:
		err = refuse(http.StatusMethodNotAllowed, "votes are sent with POST to /votes, and GET asks for one")
	default:
		err = refuse(http.StatusNotFound, "there is nothing here; votes are sent with POST to /votes")
	}
	if err == nil {
		return a
	}
	s.counts.With(strconv.Itoa(err.status)).Inc()
	if r.wantsPage() {
		return Answer{Status: err.status, Type: "text/html; charset=utf-8", Retry: err.retry, Body: page(s.Texts.For(r.Language), refused, "Your request was not taken", s.Texts.For(r.Language).Message(err.Error()), "", "")}
	}
	return Answer{Status: err.status, Body: []byte(err.Error() + "\n"), Retry: err.retry}
}

// wantsPage reports whether the request comes from a person's browser.
func (r *Request) wantsPage() bool { return strings.Contains(r.Accept, "text/html") }

// votes accepts votes.
func (s *Server) votes(ctx context.Context, r *Request) (a Answer, _ *refusal) {
	ballots, single, bad := readBallots(r.Type, r.Body)
	if bad != nil {
		return a, bad
	}
	if len(r.Key) > maxKey {
		return a, refuse(400, "an Idempotency-Key has at most %d bytes", maxKey)
	}
	from := r.Voter
	if from == nil {
		from = &Voter{Addr: r.From}
		if s.Who != nil {
			*from = s.Who(r.From, r.Authorization)
		}
	}
	now := time.Now()
	records := make([][]byte, len(ballots))
	ids := make([]ID, len(ballots))
	voters := make(map[string]int, 1)
	for n := range ballots {
		b := &ballots[n]
		if r.Site == "cross-site" && b.Token == "" {
			return a, refuse(http.StatusForbidden, "a page of another site cannot vote without the token of a block page")
		}
		key := r.Key
		if key != "" && !single {
			key += "/" + strconv.Itoa(n)
		}
		v, bad := s.vote(b, from, key, now)
		if bad != nil {
			if !single {
				bad.err = fmt.Errorf("vote %d: %w", n, bad.err)
			}
			return a, bad
		}
		// Voters are distinguished by user, or by the address in the token, because
		// many clients may vote through one address.
		ids[n] = v.ID
		if r.Language != "" {
			v.Mail = MailTo(v.Mail, s.Texts.For(r.Language))
		}
		voters[v.Voter()]++
		records[n] = v.Append(make([]byte, 0, 256))
	}
	wait, tooMany := s.limit.take(voters, now)
	if tooMany {
		return a, refuse(http.StatusRequestEntityTooLarge, "more votes of one client at once than its limit: %d are taken in %v", s.limit.rate.Most, s.limit.rate.In)
	}
	if wait > 0 {
		return a, &refusal{http.StatusTooManyRequests, errors.New("so many votes of one client are not taken; try again later"), wait}
	}
	if bad := s.appendVotes(ctx, records); bad != nil {
		s.limit.giveBack(voters) // the client sends them again
		return a, bad
	}
	return s.accepted(r, ids, single), nil
}

// appendVotes appends votes to the log.
func (s *Server) appendVotes(ctx context.Context, records [][]byte) *refusal {
	err := s.Log.Append(ctx, records...)
	if err == nil {
		s.taken.Add(float64(len(records)))
		return nil
	}
	bad := &refusal{http.StatusServiceUnavailable, fmt.Errorf("the vote is not counted, send it again: %w", err), time.Second}
	if u := (*ingest.Unavailable)(nil); errors.As(err, &u) {
		bad.retry = u.Retry
	}
	return bad
}

func (s *Server) accepted(r *Request, ids []ID, single bool) Answer {
	t := s.Texts.For(r.Language)
	a := Answer{Status: http.StatusAccepted, Type: "application/json"}
	if single {
		a.Location = r.Base + "/" + ids[0].String()
	}
	if single && r.wantsPage() {
		says := t.Say("The answer appears here.")
		if s.Contact != nil && s.Contact() != "" {
			says = t.Say("It went to {contact}. The answer appears here.", "contact", s.Contact())
		}
		a.Type, a.Body = "text/html; charset=utf-8", page(t, waits, "Your request has been sent", says, "Look for the answer", a.Location)
		return a
	}
	link := func(b []byte, id ID) []byte {
		b = append(b, `{"id":"`...)
		b = id.append(b)
		b = append(append(append(b, `","link":"`...), r.Base...), '/')
		return append(id.append(b), `"}`...)
	}
	if single {
		a.Body = append(link(nil, ids[0]), '\n')
		return a
	}
	b := []byte{'['}
	for n, id := range ids {
		if n > 0 {
			b = append(b, ',')
		}
		b = link(b, id)
	}
	a.Body = append(b, "]\n"...)
	return a
}

// acceptForwarded accepts votes that another node has acknowledged.
func (s *Server) acceptForwarded(ctx context.Context, r *Request) (a Answer, _ *refusal) {
	secret, ok := strings.CutPrefix(r.Authorization, "Bearer ")
	if s.Secret == "" || !ok || subtle.ConstantTimeCompare([]byte(secret), []byte(s.Secret)) != 1 {
		return a, refuse(http.StatusUnauthorized, "the secret that nodes share is missing or wrong")
	}
	records, err := unpack(r.Body)
	if err != nil {
		return a, refuse(400, "%w", err)
	}
	if bad := s.appendVotes(ctx, records); bad != nil {
		return a, bad
	}
	return Answer{Status: http.StatusAccepted}, nil
}

// pack joins encoded votes into the body of a request to another node.
func pack(dst []byte, records [][]byte) []byte {
	for _, r := range records {
		dst = binary.AppendUvarint(dst, uint64(len(r)))
		dst = append(dst, r...)
	}
	return dst
}

// unpack splits the result of pack.
func unpack(b []byte) (records [][]byte, err error) {
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, errVote
		}
		r := b[size : size+int(n)]
		if _, err := Parse(r); err != nil {
			return nil, fmt.Errorf("vote %d: %w", len(records), err)
		}
		records, b = append(records, r), b[size+int(n):]
		if len(records) > ingest.MaxRecords {
			return nil, fmt.Errorf("more than %d votes at once", ingest.MaxRecords)
		}
	}
	if len(records) == 0 {
		return nil, errors.New("there is no vote")
	}
	return records, nil
}

// state answers with the state of a vote.
func (s *Server) state(ctx context.Context, r *Request, text string) (a Answer, _ *refusal) {
	id, err := ParseID(text)
	if err != nil {
		return a, refuse(400, "%w", err)
	}
	if s.State == nil {
		return a, refuse(http.StatusNotFound, "this node does not count votes; ask the one that does")
	}
	st, err := s.State(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		return a, refuse(http.StatusNotFound, "%w", err)
	case err != nil:
		s.Logger.Error("the state of a vote cannot be read", "error", err)
		return a, &refusal{http.StatusServiceUnavailable, errors.New("the state of the vote cannot be read for now"), 5 * time.Second}
	}
	st.ID = text
	if st.Decision != nil {
		st.Decision = st.Decision.public()
	}
	if r.wantsPage() {
		return Answer{Status: 200, Type: "text/html; charset=utf-8", Body: s.standing(r, &st)}, nil
	}
	return Answer{Status: 200, Type: "application/json", Body: st.json()}, nil
}

// standing returns the page about a vote. It leads to the site once that is open: on the block
// page to what was asked for, elsewhere to its beginning.
func (s *Server) standing(r *Request, st *State) []byte {
	t := s.Texts.For(r.Language)
	switch d := st.Decision; {
	case d == nil:
		return page(t, waits, "Your request", st.sentence(t), "Look again", r.Base+"/"+st.ID)
	case (d.Action == Open || d.Action == More) && d.Ended.IsZero() && r.Voter != nil && r.Voter.Same:
		return page(t, answered, "Your request was answered", st.sentence(t), "Open the page", "/")
	}
	return page(t, answered, "Your request was answered", st.sentence(t), "", "")
}
