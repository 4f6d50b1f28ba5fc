package state

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A Bulk reads what is large from Redis. The client library makes a message of
// each element of an answer before it hands over the first, which for a hash of
// 100,000 fields is many times what they hold; here they are taken from the
// connection one by one, into the same few buffers.
type Bulk struct {
	client rueidis.Client // knows where the servers are
	option rueidis.ClientOption
}

// Bulk makes a Bulk beside a client of the same settings. Paths in them are
// relative to dir.
func (r Redis) Bulk(dir string, client rueidis.Client) (*Bulk, error) {
	o, err := r.Option(dir)
	return &Bulk{client, o}, err
}

const (
	// wholeHash is how many fields a hash may have to be read at once: the
	// server does nothing else for about 0.25 ms for each thousand.
	wholeHash = 200_000
	// page is how many elements are asked for at once of what is larger, and of
	// sets, strings and chosen fields; the server works on that for 1 to 2 ms.
	page = 5000
	// redirects is how often a cluster may say that a key is elsewhere.
	redirects = 5
)

// A Session reads through connections of its own, made when they are first
// needed, for as long as it is open. One goroutine uses it. After an error
// what was read is not all there is; a Session that had one may be used again.
type Session struct {
	*Bulk
	ctx   context.Context
	most  int
	conns map[string]*bulkConn
}

// Session begins one, which ends with ctx. Values of more than most bytes are
// cut there.
func (b *Bulk) Session(ctx context.Context, most int) *Session {
	return &Session{b, ctx, most, map[string]*bulkConn{}}
}

// Close closes its connections.
func (s *Session) Close() {
	for addr := range s.conns {
		s.hangUp(addr)
	}
}

// Hash calls take with the fields of a hash. A large one is read page by page:
// then a field may come twice, and those that come and go meanwhile may not
// come. What take gets is valid until it returns.
func (s *Session) Hash(key string, take func(field, value []byte) error) error {
	return s.at(key, func(c *bulkConn) error {
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

// Members calls take with the members of a set; one may come twice. What take
// gets is valid until it returns.
func (s *Session) Members(key string, take func(member []byte) error) error {
	return s.at(key, func(c *bulkConn) error {
		return c.walk(false, func(m, _ []byte) error { return take(m) }, "SSCAN", key)
	})
}

// Keys calls take with the keys that fit a pattern (Redis' globs), of all nodes
// of a cluster; one may come twice. What take gets is valid until it returns.
// All keys of the database are looked at for it.
func (s *Session) Keys(pattern string, take func(key []byte) error) error {
	for addr := range s.client.Nodes() {
		if err := s.with(addr, func(c *bulkConn) error {
			return c.walk(false, func(key, _ []byte) error { return take(key) }, "SCAN", "MATCH", pattern)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Length returns how many fields a hash has.
func (s *Session) Length(key string) (n int, err error) {
	err = s.at(key, func(c *bulkConn) error {
		n, err = c.length(key)
		return err
	})
	return n, err
}

// Fields calls take with the names of a hash's fields. Of a large one, a field
// may come twice, and those that come and go meanwhile may not come. What take
// gets is valid until it returns.
func (s *Session) Fields(key string, take func(field []byte) error) error {
	return s.at(key, func(c *bulkConn) error {
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

// Values calls take with the values of n fields of a hash in their order, nil
// for one that is not there. field appends the i-th field to b. What take gets is
// valid until it returns.
func (s *Session) Values(key string, n int, field func(i int, b []byte) []byte, take func(i int, value []byte) error) error {
	return s.at(key, func(c *bulkConn) error { return c.pages(n, field, take, "HMGET", key) })
}

// Strings calls take with the values of n keys in their order, nil for one that
// is not there or is no string. key appends the i-th key to b. What take gets is
// valid until it returns.
func (s *Session) Strings(n int, key func(i int, b []byte) []byte, take func(i int, value []byte) error) error {
	if s.client.Mode() == rueidis.ClientModeCluster {
		return s.scattered(n, key, take)
	}
	return s.at("", func(c *bulkConn) error { return c.pages(n, key, take, "MGET") })
}

// scattered is Strings in a cluster, where no command has keys of several nodes.
func (s *Session) scattered(n int, key func(int, []byte) []byte, take func(int, []byte) error) error {
	var name []byte
	for from := 0; from < n; from += page {
		cmds := make(rueidis.Commands, 0, min(n-from, page))
		for i := from; i < min(n, from+page); i++ {
			name = key(i, name[:0])
			cmds = append(cmds, s.client.B().Arbitrary("GET").Keys(string(name)).Build())
		}
		for i, r := range s.client.DoMulti(s.ctx, cmds...) {
			value, err := r.AsBytes()
			if _, refused := rueidis.IsRedisErr(err); err != nil && !refused && !rueidis.IsRedisNil(err) {
				return err
			}
			if err := take(from+i, value[:min(len(value), s.most)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// moved is a cluster's answer that a key is on another node.
type moved struct {
	addr string
	ask  bool // for once only
}

func (m *moved) Error() string { return "the key is at " + m.addr }

// at has do ask the server that has a key, "" where there is one only.
func (s *Session) at(key string, do func(*bulkConn) error) error {
	addr := ""
	for a := range s.conns { // one that there is, if any
		addr = a
	}
	if addr == "" {
		all := slices.Sorted(maps.Keys(s.client.Nodes()))
		if len(all) == 0 {
			return errors.New("no server is known")
		}
		addr = all[0]
	}
	asking := false
	for range redirects {
		err := s.with(addr, func(c *bulkConn) error {
			if asking {
				c.command("ASKING")
				if _, err := c.line(); err != nil {
					return err
				}
			}
			return do(c)
		})
		var m *moved
		if !errors.As(err, &m) {
			return err
		}
		addr, asking = m.addr, m.ask
	}
	return fmt.Errorf("a cluster says of %q that it is elsewhere, %d times", key, redirects)
}

// with has do use the connection to a server.
func (s *Session) with(addr string, do func(*bulkConn) error) error {
	c := s.conns[addr]
	if c == nil {
		var err error
		if c, err = s.dial(addr); err != nil {
			return err
		}
		s.conns[addr] = c
	}
	if err := do(c); err != nil {
		s.hangUp(addr) // more of an answer may be under way
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		return err
	}
	return nil
}

func (s *Session) hangUp(addr string) {
	c := s.conns[addr]
	delete(s.conns, addr)
	c.stop()
	c.conn.Close()
}

// dial connects as the library does.
func (s *Session) dial(addr string) (*bulkConn, error) {
	var conn net.Conn
	var err error
	if s.option.TLSConfig != nil {
		d := tls.Dialer{NetDialer: &s.option.Dialer, Config: s.option.TLSConfig}
		conn, err = d.DialContext(s.ctx, "tcp", addr)
	} else {
		conn, err = s.option.Dialer.DialContext(s.ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	c := &bulkConn{conn: conn, w: bufio.NewWriterSize(conn, 16<<10), most: s.most}
	c.r = bufio.NewReaderSize(impatient{conn}, connBuffer)
	c.stop = context.AfterFunc(s.ctx, func() { conn.Close() })
	var hello [][]string
	switch o := s.option; {
	case o.Username != "":
		hello = append(hello, []string{"AUTH", o.Username, o.Password})
	case o.Password != "":
		hello = append(hello, []string{"AUTH", o.Password})
	}
	if s.option.SelectDB != 0 {
		hello = append(hello, []string{"SELECT", strconv.Itoa(s.option.SelectDB)})
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

// impatient waits for each piece as long as for a server that hangs.
type impatient struct{ net.Conn }

func (p impatient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// bulkConn is one connection. It speaks RESP2, which a server does that was
// not told otherwise.
type bulkConn struct {
	conn  net.Conn
	r     *bufio.Reader
	w     *bufio.Writer
	stop  func() bool
	most  int
	key   []byte
	field []byte
	long  []byte
}

var errProtocol = errors.New("the server's answer is not RESP2 as Redis speaks it")

// begin begins a command of so many words. It leaves with what is asked next
// when an answer is waited for.
func (c *bulkConn) begin(words int) {
	c.number('*', words)
}

func (c *bulkConn) number(kind byte, n int) {
	_ = c.w.WriteByte(kind)
	_, _ = c.w.Write(strconv.AppendInt(c.w.AvailableBuffer(), int64(n), 10))
	_, _ = c.w.WriteString("\r\n") // Flush has the error
}

func (c *bulkConn) text(word string) {
	c.number('$', len(word))
	_, _ = c.w.WriteString(word)
	_, _ = c.w.WriteString("\r\n")
}

func (c *bulkConn) bytes(word []byte) {
	c.number('$', len(word))
	_, _ = c.w.Write(word)
	_, _ = c.w.WriteString("\r\n")
}

func (c *bulkConn) command(words ...string) {
	c.begin(len(words))
	for _, word := range words {
		c.text(word)
	}
}

// line reads a line without its end; what the server refuses is an error.
func (c *bulkConn) line() ([]byte, error) {
	if c.w.Buffered() > 0 {
		if err := c.conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
			return nil, err
		}
		if err := c.w.Flush(); err != nil {
			return nil, err
		}
	}
	b, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || err == nil && (len(b) < 3 || b[len(b)-2] != '\r') {
		return nil, errProtocol
	}
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-2]
	if b[0] != '-' {
		return b, nil
	}
	words := strings.Fields(string(b[1:]))
	if len(words) == 3 && (words[0] == "MOVED" || words[0] == "ASK") {
		return nil, &moved{words[2], words[0] == "ASK"}
	}
	return nil, errors.New(string(b[1:]))
}

// header reads the line that begins an answer: a number, or how much follows.
func (c *bulkConn) header(kind byte) (int, error) {
	b, err := c.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(b[1:]))
	if b[0] != kind || err != nil || n < -1 || n < 0 && kind != '$' {
		return 0, errProtocol
	}
	return n, nil
}

// bulk reads a string; nil for none. It is valid until the next is read.
func (c *bulkConn) bulk() ([]byte, error) {
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
	_, err = c.r.Discard(n + 2)
	return b[:n:n], err
}

// longer is bulk for what the buffer does not hold.
func (c *bulkConn) longer(n int) ([]byte, error) {
	keep := min(n, c.most)
	c.long = slices.Grow(c.long[:0], keep)[:keep]
	if _, err := io.ReadFull(c.r, c.long); err != nil {
		return nil, err
	}
	_, err := c.r.Discard(n - keep + 2)
	return c.long, err
}

// elements hands on n strings, or pairs of them: what is in the buffer whole
// from there, what is not by itself.
func (c *bulkConn) elements(n int, pairs bool, take func(a, b []byte) error) error {
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

// element is the string that buf begins with, nil for none, and how many bytes
// it takes there; 0 when buf does not have all of it, or has something else.
func element(buf []byte) (text []byte, size int) {
	if len(buf) < 4 || buf[0] != '$' {
		return nil, 0
	}
	at, length := 1, 0
	for ; at < len(buf) && '0' <= buf[at] && buf[at] <= '9' && length < connBuffer; at++ {
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

// length is how many fields a hash has.
func (c *bulkConn) length(key string) (int, error) {
	c.command("HLEN", key)
	return c.header(':')
}

// pages asks for n values by their names, page by page: the server makes one
// while another is handed on.
func (c *bulkConn) pages(n int, name func(i int, b []byte) []byte, take func(i int, value []byte) error, words ...string) error {
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
			return errProtocol
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

// walk goes through a hash, a set or all keys, page by page. The next page is
// asked for as soon as it is known where that begins.
func (c *bulkConn) walk(pairs bool, take func(a, b []byte) error, command string, words ...string) error {
	where := 0 // the cursor stands behind the key
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
			err = errProtocol
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
