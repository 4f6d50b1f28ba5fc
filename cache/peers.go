package cache

import (
	"context"
	"errors"
	"io"
	"strings"

	"shuultuur/cache/peer"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// Listen accepts requests of the cache's peers, if there are any.
func (c *Cache) Listen(ctx context.Context) error {
	if c.peers == nil {
		return nil
	}
	return c.peers.Listen(ctx)
}

// Serve makes r, which [Cache.InFrontOf] returned, answer peers from now on.
func (c *Cache) Serve(r *RoundTripper) { c.front.Store(r) }

// Problems returns which peers are unreachable.
func (c *Cache) Problems() (list []string) {
	if c.peers == nil {
		return nil
	}
	for _, n := range c.peers.Nodes() {
		if !n.Up() {
			list = append(list, "the cache's peer "+n.Name+" cannot be reached; its objects are fetched by others")
		}
	}
	return list
}

// errNotServing reports that this node does not answer its peers yet.
var errNotServing = errors.New("cache: not serving yet")

// fromPeer lets the node answer that keeps the object, if that is another one. It returns nil
// if this node must look up the object.
func (a *exchange) fromPeer() (*message.Response, error) {
	p := a.c.peers
	if p == nil || a.peer || a.q.Has("Authorization") { // credentials may sign in a connection of this node
		return nil, nil
	}
	n := p.Owner(hash(a.name))
	if n == nil {
		return nil, nil
	}
	head, body, length, err := n.Fetch(a.ctx, encodeAsk(a.q, a.t))
	if err != nil {
		return nil, a.ctx.Err()
	}
	s, err := decodeAnswer(head)
	if err != nil {
		body.Close()
		n.Failed.Add(1)
		return nil, nil
	}
	s.Body = &peerBody{r: body, left: length}
	if s.Length = length; length < 0 {
		s.Length = message.Chunked
	}
	note := strings.TrimPrefix(string(s.Get("Cache-Status")), "shuultuur; ")
	annotate(s, notePeer)
	if hit, _, _ := strings.Cut(note, ";"); hit == "hit" || strings.Contains(note, "collapsed") {
		n.Hits.Add(1)
		if a.t != nil {
			a.t.Cache = "peer"
		}
		a.c.countResponse("peer", a.t, max(length, 0))
	} else {
		n.Misses.Add(1)
		a.note("miss", nil)
	}
	return s, nil
}

// removeAll removes the objects with these names, here and, if stored is true, at the peers.
func (c *Cache) removeAll(ctx context.Context, stored bool, names [][]byte) {
	for _, name := range names {
		c.invalidate(name)
	}
	if c.peers != nil && stored {
		for _, name := range names {
			c.peers.Broadcast(ctx, peer.Order{Kind: orderName, Value: string(name)})
		}
	}
}

// askVersion is the version of what nodes ask each other.
const askVersion = 1

// Kinds of orders in addition to those of purges.
const (
	orderName = "name"
	orderAll  = "all"
)

// local is the shelf as seen by peers. It implements [peer.Local].
type local struct{ *shelf }

// CarryOut implements [peer.Local].
func (l local) CarryOut(orders []peer.Order) {
	for _, o := range orders {
		switch o.Kind {
		case orderName:
			l.invalidate([]byte(o.Value))
		default:
			if err := l.purge(o.Kind, o.Value); err != nil {
				l.log.Error("a purge from a peer of the cache failed", "error", err)
			}
		}
	}
}

// Answer implements [peer.Local].
func (l local) Answer(ctx context.Context, ask []byte) (head []byte, body io.ReadCloser, length int64, err error) {
	r := l.front.Load()
	if r == nil {
		return nil, nil, 0, errNotServing
	}
	q, t, err := decodeAsk(ask)
	if err != nil {
		return nil, nil, 0, err
	}
	s, err := r.answer(ctx, q, t, true)
	if err != nil {
		return nil, nil, 0, err
	}
	length = s.Body.Remaining()
	if q.Method == "HEAD" || s.Body.AtEnd() {
		length = 0
	}
	return encodeAnswer(s), s.Body, length, nil
}

// encodeAsk encodes a request for a peer: with the edits of the policy, which are part of the
// object's name, and the categories of the host.
func encodeAsk(q *message.Request, t *filter.Transaction) []byte {
	e := encoder{askVersion}
	e.text(q.Method)
	e.text(q.Scheme)
	e.text(string(q.Host))
	e.number(int64(q.Port))
	e.text(string(q.Path))
	e.text(q.Dial)
	e.fields(q.Fields)
	var edits []string
	if t != nil {
		for _, x := range t.Edits {
			if x.Kind == filter.SetHeader {
				edits = append(edits, x.Name, x.Value)
			}
		}
	}
	e.texts(edits)
	e.texts(categoriesOf(t))
	return e
}

func decodeAsk(b []byte) (*message.Request, *filter.Transaction, error) {
	if len(b) == 0 || b[0] != askVersion {
		return nil, nil, errEncoded
	}
	d := decoder{b: b[1:]}
	q := &message.Request{Method: string(d.bytes()), Form: message.Absolute, Proto: 11, Length: message.None}
	q.Scheme, q.Host, q.Port, q.Path, q.Dial = string(d.bytes()), d.bytes(), uint16(d.number()), d.bytes(), string(d.bytes())
	q.Fields = d.fields()
	t := &filter.Transaction{}
	edits := d.texts()
	for i := 0; i+1 < len(edits); i += 2 {
		t.Edits = append(t.Edits, filter.Edit{Kind: filter.SetHeader, Name: edits[i], Value: edits[i+1]})
	}
	for _, c := range d.texts() {
		t.Findings = append(t.Findings, filter.Finding{Check: "category", Category: c})
	}
	if d.failed || q.Method != "GET" && q.Method != "HEAD" || len(q.Host) == 0 {
		return nil, nil, errEncoded
	}
	return q, t, nil
}

// encodeAnswer encodes the head of an answer to a peer.
func encodeAnswer(s *message.Response) []byte {
	e := encoder{askVersion}
	e.number(int64(s.Status))
	e.text(string(s.Reason))
	e.number(int64(s.Proto))
	e.fields(s.Fields)
	return e
}

func decodeAnswer(b []byte) (*message.Response, error) {
	if len(b) == 0 || b[0] != askVersion {
		return nil, errEncoded
	}
	d := decoder{b: b[1:]}
	s := &message.Response{Status: int(d.number()), Reason: d.bytes(), Proto: uint8(d.number())}
	s.Fields = d.fields()
	if d.failed || s.Status < 200 || s.Status > 999 {
		return nil, errEncoded
	}
	return s, nil
}

// A peerBody is the body of a peer's answer. left is negative if its length is unknown.
type peerBody struct {
	r    io.ReadCloser
	left int64
	done bool
}

// Read implements [message.Body].
func (p *peerBody) Read(b []byte) (int, error) {
	if p.AtEnd() {
		return 0, io.EOF
	}
	n, err := p.r.Read(b)
	if p.left >= 0 {
		p.left -= int64(n)
	}
	switch {
	case err == io.EOF && p.left > 0:
		err = io.ErrUnexpectedEOF
	case err == io.EOF, p.left == 0:
		p.done = true
		if n > 0 {
			err = nil
		}
	}
	return n, err
}

// Copy implements [message.Body].
func (p *peerBody) Copy(w io.Writer, most int64) (n int64, err error) {
	buf := make([]byte, min(most, 64<<10))
	for n < most && !p.AtEnd() {
		m, err := p.Read(buf[:min(int64(len(buf)), most-n)])
		if m > 0 {
			if _, err := w.Write(buf[:m]); err != nil {
				return n, err
			}
			n += int64(m)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close implements [message.Body].
func (p *peerBody) Close() error { return p.r.Close() }

// Ready implements [message.Body]: nothing is buffered.
func (p *peerBody) Ready(dst [][]byte) [][]byte { return dst }

// Skip implements [message.Body].
func (p *peerBody) Skip(int) {}

// AtEnd implements [message.Body].
func (p *peerBody) AtEnd() bool { return p.done || p.left == 0 }

// Trailer implements [message.Body].
func (p *peerBody) Trailer() message.Fields { return nil }

// Remaining implements [message.Body].
func (p *peerBody) Remaining() int64 {
	switch {
	case p.done:
		return 0
	case p.left >= 0:
		return p.left
	}
	return message.Chunked
}
