package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// wholeHash is the number of fields up to which a hash is read at once: the server does
	// nothing else for about 0.25 ms per thousand.
	wholeHash = 200_000
	// page is how many elements of larger values, and of sets, strings and selected fields, are
	// requested at once; that takes the server 1 to 2 ms.
	page = 5000
	// longest bounds a string, as servers do, and the elements of a reply.
	longest = 512 << 20
)

// A Session reads large values. [Client.Do] buffers all replies of a batch, which for a hash
// of 100,000 fields is much. A Session reads elements one by one from its own connection and
// passes each on. It is not safe for concurrent use. After an error the elements read are
// incomplete, and the Session may be used again.
type Session struct {
	client *Client
	ctx    context.Context
	most   int
	conns  map[string]*stream
}

// Session begins one, which ends with ctx. Values of more than most bytes are truncated.
func (c *Client) Session(ctx context.Context, most int) *Session {
	return &Session{c, ctx, most, map[string]*stream{}}
}

// Close closes its connections.
func (s *Session) Close() {
	for addr := range s.conns {
		s.hangUp(addr)
	}
}

// Hash calls take for the fields of a hash. A large one is read page by page: then a field may
// come twice, and fields that are added or removed meanwhile may be missing. Arguments of take
// are valid until it returns.
func (s *Session) Hash(key string, take func(field, value []byte) error) error {
	return s.at(key, func(c *stream) error {
		n, err := c.length(key)
		if err != nil {
			return err
		}
		if n > wholeHash {
			return c.walk(true, take, "HSCAN", key)
		}
		c.command("HGETALL", key)
		if n, err = c.header('*'); err != nil {
			return err
		}
		return c.elements(n, true, take)
	})
}

// Members calls take for the members of a set; one may come twice. Arguments of take are valid
// until it returns.
func (s *Session) Members(key string, take func(member []byte) error) error {
	return s.at(key, func(c *stream) error {
		return c.walk(false, func(m, _ []byte) error { return take(m) }, "SSCAN", key)
	})
}

// Keys calls take for the keys that match a pattern (Redis' globs), on all nodes of a cluster;
// one may come twice. Arguments of take are valid until it returns. The server examines all
// keys of the database.
func (s *Session) Keys(pattern string, take func(key []byte) error) error {
	for _, addr := range s.client.Nodes() {
		if err := s.withConn(addr, func(c *stream) error {
			return c.walk(false, func(key, _ []byte) error { return take(key) }, "SCAN", "MATCH", pattern)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Length returns the number of fields of a hash.
func (s *Session) Length(key string) (n int, err error) {
	err = s.at(key, func(c *stream) error {
		n, err = c.length(key)
		return err
	})
	return n, err
}

// Fields calls take for the names of a hash's fields. Of a large one, a field may come twice,
// and fields that are added or removed meanwhile may be missing. Arguments of take are valid
// until it returns.
func (s *Session) Fields(key string, take func(field []byte) error) error {
	return s.at(key, func(c *stream) error {
		n, err := c.length(key)
		if err != nil {
			return err
		}
		each := func(field, _ []byte) error { return take(field) }
		if n > wholeHash {
			return c.walk(true, each, "HSCAN", key)
		}
		c.command("HKEYS", key)
		if n, err = c.header('*'); err != nil {
			return err
		}
		return c.elements(n, false, each)
	})
}

// Values calls take for the values of n fields of a hash in order, nil for a missing one.
// field appends the i-th field to b. Arguments of take are valid until it returns.
func (s *Session) Values(key string, n int, field func(i int, b []byte) []byte, take func(i int, value []byte) error) error {
	return s.at(key, func(c *stream) error { return c.pages(n, field, take, "HMGET", key) })
}

// Strings calls take for the values of n keys in order, nil for one that is missing or not a
// string. key appends the i-th key to b. Arguments of take are valid until it returns.
func (s *Session) Strings(n int, key func(i int, b []byte) []byte, take func(i int, value []byte) error) error {
	if s.client.cluster != nil {
		return s.stringsAcrossNodes(n, key, take)
	}
	return s.at("", func(c *stream) error { return c.pages(n, key, take, "MGET") })
}

// stringsAcrossNodes is Strings in a cluster, where a command cannot have keys of several
// nodes. The commands of a page go to all nodes at once, and replies are read in the order of
// the keys.
func (s *Session) stringsAcrossNodes(n int, key func(int, []byte) []byte, take func(int, []byte) error) error {
	for from := 0; from < n; from += page {
		to := min(n, from+page)
		if err := s.gather(from, to, key, take); err != nil {
			for addr := range s.conns { // more replies may arrive
				s.hangUp(addr)
			}
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			return err
		}
	}
	return nil
}

// gather reads one page.
func (s *Session) gather(from, to int, key func(int, []byte) []byte, take func(int, []byte) error) error {
	var name []byte
	conns := make([]*stream, 0, to-from)
	for i := from; i < to; i++ {
		name = key(i, name[:0])
		c, err := s.open(s.client.cluster.of(name).address())
		if err != nil {
			return err
		}
		c.begin(2)
		c.text("GET")
		c.bytes(name)
		conns = append(conns, c)
	}
	for i, c := range conns {
		value, err := c.bulk()
		if m := (*redirection)(nil); errors.As(err, &m) {
			var b Batch
			b.Add("GET", string(key(from+i, nil)))
			if err = s.client.Do(s.ctx, &b); err == nil {
				value, err = b.Reply(0).Bytes()
			}
		}
		if err != nil && Code(err) != "WRONGTYPE" {
			return err
		}
		if err := take(from+i, value[:min(len(value), s.most)]); err != nil {
			return err
		}
	}
	return nil
}

// A redirection is a cluster's reply that a key is on another node.
type redirection struct {
	addr string
	ask  bool // only this time
}

func (m *redirection) Error() string { return "the key is at " + m.addr }

// at calls do with the server of a key; with "" there is only one server.
func (s *Session) at(key string, do func(*stream) error) error {
	addr, err := s.address(key)
	if err != nil {
		return err
	}
	asking := false
	for range redirects {
		err := s.withConn(addr, func(c *stream) error {
			if asking {
				c.command("ASKING")
				if _, err := c.line(); err != nil {
					return err
				}
			}
			return do(c)
		})
		var m *redirection
		if !errors.As(err, &m) {
			return err
		}
		addr, asking = m.addr, m.ask
	}
	return fmt.Errorf("the cluster redirected %q %d times", key, redirects)
}

// address returns the server of a key.
func (s *Session) address(key string) (string, error) {
	if s.client.cluster != nil {
		return s.client.cluster.of([]byte(key)).address(), nil
	}
	for addr := range s.conns { // the only one
		return addr, nil
	}
	return s.client.single.find(s.ctx)
}

// withConn calls do with the connection to a server.
func (s *Session) withConn(addr string, do func(*stream) error) error {
	c, err := s.open(addr)
	if err != nil {
		return err
	}
	if err := do(c); err != nil {
		s.hangUp(addr) // more of a reply may arrive
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		return err
	}
	return nil
}

// open returns the connection to a server, dialling if there is none.
func (s *Session) open(addr string) (*stream, error) {
	if c := s.conns[addr]; c != nil {
		return c, nil
	}
	c, err := s.dial(addr)
	if err != nil {
		return nil, err
	}
	s.conns[addr] = c
	return c, nil
}

func (s *Session) hangUp(addr string) {
	c := s.conns[addr]
	delete(s.conns, addr)
	c.stop()
	c.conn.Close()
}

// dial connects.
func (s *Session) dial(addr string) (*stream, error) {
	ctx, cancel := context.WithTimeout(s.ctx, dialTime)
	defer cancel()
	d := s.client.dialer
	conn, err := d.socket(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := newStream(conn, s.most)
	c.stop = context.AfterFunc(s.ctx, func() { conn.Close() })
	var hello [][]string
	switch {
	case d.username != "":
		hello = append(hello, []string{"AUTH", d.username, d.password})
	case d.password != "":
		hello = append(hello, []string{"AUTH", d.password})
	}
	if d.db != 0 {
		hello = append(hello, []string{"SELECT", strconv.Itoa(d.db)})
	}
	for _, words := range hello {
		c.command(words...)
		if _, err := c.line(); err != nil {
			c.stop()
			conn.Close()
			return nil, fmt.Errorf("%s: %w", words[0], err)
		}
	}
	return c, nil
}

func newStream(conn net.Conn, most int) *stream {
	c := &stream{conn: conn, most: most}
	c.patience.conn = conn
	c.r, c.w = bufio.NewReaderSize(&c.patience, readBuffer), bufio.NewWriterSize(&c.patience, 16<<10)
	return c
}

// patience bounds the time spent waiting: silence for the beginning of a reply, and for each
// further 64 KiB.
type patience struct {
	conn net.Conn
	left time.Duration // 0 starts again
	got  int
}

func (p *patience) Read(b []byte) (int, error) {
	if p.left <= 0 {
		p.left, p.got = silence, 0
	}
	began := time.Now()
	if err := p.conn.SetReadDeadline(began.Add(p.left)); err != nil {
		return 0, err
	}
	n, err := p.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	p.left -= time.Since(began)
	if p.got += n; p.got >= readBuffer {
		p.left = 0
	} else if p.left <= 0 && err == nil {
		p.left = 1 // one more read of the bytes that have arrived
	}
	return n, err
}

func (p *patience) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return p.conn.Write(b)
}

// A stream is one connection. It uses RESP2, as servers do without HELLO.
type stream struct {
	conn     net.Conn
	patience patience
	r        *bufio.Reader
	w        *bufio.Writer
	stop     func() bool
	most     int
	key      []byte
	field    []byte
	long     []byte
}

// begin begins a command of so many words. It is sent with the next commands when a reply is
// awaited.
func (c *stream) begin(words int) {
	c.number('*', words)
}

func (c *stream) number(kind byte, n int) {
	_ = c.w.WriteByte(kind)
	_, _ = c.w.Write(strconv.AppendInt(c.w.AvailableBuffer(), int64(n), 10))
	_, _ = c.w.WriteString("\r\n") // Flush has the error
}

func (c *stream) text(word string) {
	c.number('$', len(word))
	_, _ = c.w.WriteString(word)
	_, _ = c.w.WriteString("\r\n")
}

func (c *stream) bytes(word []byte) {
	c.number('$', len(word))
	_, _ = c.w.Write(word)
	_, _ = c.w.WriteString("\r\n")
}

func (c *stream) command(words ...string) {
	c.begin(len(words))
	for _, word := range words {
		c.text(word)
	}
}

// line reads a line without its end; a refusal by the server is an error.
func (c *stream) line() ([]byte, error) {
	if c.w.Buffered() > 0 {
		if err := c.w.Flush(); err != nil {
			return nil, err
		}
		c.patience.left = 0
	}
	b, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || err == nil && (len(b) < 3 || b[len(b)-2] != '\r') {
		return nil, malformed("the line %.40q", b)
	}
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-2]
	if b[0] != '-' {
		return b, nil
	}
	refused := &Error{Text: strings.ToValidUTF8(string(b[1:]), "?")}
	words := strings.Fields(refused.Text)
	if len(words) == 3 && (words[0] == "MOVED" || words[0] == "ASK") {
		return nil, &redirection{words[2], words[0] == "ASK"}
	}
	refused.Code, _, _ = strings.Cut(refused.Text, " ")
	return nil, refused
}

// header reads the first line of a reply: a number, or a length.
func (c *stream) header(kind byte) (int, error) {
	b, err := c.line()
	if err != nil {
		return 0, err
	}
	n, ok := number(b[1:])
	if b[0] != kind || !ok || n < -1 || n < 0 && kind != '$' || n > longest {
		return 0, malformed("%.40q instead of %q and a length", b, kind)
	}
	return int(n), nil
}

// bulk reads a string; nil for null. It is valid until the next read.
func (c *stream) bulk() ([]byte, error) {
	n, err := c.header('$')
	if err != nil || n < 0 {
		return nil, err
	}
	if n+2 > c.r.Size() {
		return c.longer(n)
	}
	b, err := c.r.Peek(n + 2)
	if err != nil {
		return nil, err
	}
	if b[n] != '\r' || b[n+1] != '\n' {
		return nil, malformed("a string without its end")
	}
	_, err = c.r.Discard(n + 2)
	return b[:n:n], err
}

// longer is bulk for strings that exceed the buffer.
func (c *stream) longer(n int) ([]byte, error) {
	keep := min(n, c.most)
	c.long = slices.Grow(c.long[:0], keep)[:keep]
	if _, err := io.ReadFull(c.r, c.long); err != nil {
		return nil, err
	}
	_, err := c.r.Discard(n - keep + 2)
	return c.long, err
}

// elements passes on n strings, or pairs of them: directly from the buffer if they are
// complete there, otherwise one by one.
func (c *stream) elements(n int, pairs bool, take func(a, b []byte) error) error {
	for i := 0; i < n; {
		buf, _ := c.r.Peek(c.r.Buffered()) // never more than there is
		used := 0
		for i < n {
			a, size := element(buf[used:])
			var b []byte
			if size > 0 && pairs {
				var more int
				if b, more = element(buf[used+size:]); more == 0 {
					break
				}
				size += more
				i++
			}
			if size == 0 {
				break
			}
			used += size
			i++
			if err := take(a, b); err != nil {
				return err
			}
		}
		if _, err := c.r.Discard(used); err != nil || i >= n {
			return err
		}
		a, err := c.bulk()
		if err != nil {
			return err
		}
		i++
		var b []byte
		if pairs {
			c.field = append(c.field[:0], a...)
			a = c.field
			if b, err = c.bulk(); err != nil {
				return err
			}
			i++
		}
		if err := take(a, b); err != nil {
			return err
		}
	}
	return nil
}

// element returns the string at the beginning of buf, nil for null, and its size there; 0 if
// buf has only a part of it, or something else.
func element(buf []byte) (text []byte, size int) {
	if len(buf) < 4 || buf[0] != '$' {
		return nil, 0
	}
	at, length := 1, 0
	for ; at < len(buf) && '0' <= buf[at] && buf[at] <= '9' && length < readBuffer; at++ {
		length = 10*length + int(buf[at]-'0')
	}
	if at == 1 && len(buf) >= 5 && string(buf[:5]) == "$-1\r\n" {
		return nil, 5
	}
	end := at + 2 + length
	if at == 1 || end+2 > len(buf) || buf[at] != '\r' || buf[at+1] != '\n' {
		return nil, 0
	}
	return buf[at+2 : end : end], end + 2
}

// length returns the number of fields of a hash.
func (c *stream) length(key string) (int, error) {
	c.command("HLEN", key)
	return c.header(':')
}

// pages requests n values by name, page by page: the server prepares one page while another is
// passed on.
func (c *stream) pages(n int, name func(i int, b []byte) []byte, take func(i int, value []byte) error, words ...string) error {
	sent := 0
	for from := 0; from < n; from += page {
		for ; sent < min(n, from+2*page); sent += page { // one ahead
			to := min(n, sent+page)
			c.begin(len(words) + to - sent)
			for _, word := range words {
				c.text(word)
			}
			for i := sent; i < to; i++ {
				c.key = name(i, c.key[:0])
				c.bytes(c.key)
			}
		}
		got, err := c.header('*')
		if err != nil {
			return err
		}
		if got != min(n-from, page) {
			return malformed("%d values for %d keys", got, min(n-from, page))
		}
		i := from
		if err := c.elements(got, false, func(value, _ []byte) error {
			i++
			return take(i-1, value)
		}); err != nil {
			return err
		}
	}
	return nil
}

// walk iterates over a hash, a set or all keys, page by page. It requests the next page as
// soon as the cursor is known.
func (c *stream) walk(pairs bool, take func(a, b []byte) error, command string, words ...string) error {
	where := 0 // the cursor follows the key
	if command != "SCAN" {
		where = 1
	}
	ask := func(cursor string) {
		c.command(slices.Concat([]string{command}, words[:where], []string{cursor, "COUNT", strconv.Itoa(page)}, words[where:])...)
	}
	ask("0")
	for {
		n, err := c.header('*')
		if err == nil && n != 2 {
			err = malformed("a page of %d parts", n)
		}
		if err != nil {
			return err
		}
		at, err := c.bulk()
		if err != nil {
			return err
		}
		cursor := string(at)
		if cursor != "0" {
			ask(cursor)
		}
		if n, err = c.header('*'); err != nil { // which asks, too
			return err
		}
		if err := c.elements(n, pairs, take); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
}
