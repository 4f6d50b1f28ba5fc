// Package message holds HTTP messages as they were sent: heads with their fields in order,
// case and raw bytes, and a strict HTTP/1 reader (RFC 9110, RFC 9112).
//
// It exists beside net/http because signatures need the order, case and exact bytes of a head,
// which net/http discards, and because forwarding through net/http costs three times as much
// as necessary. Here a head is copied once from the connection's buffer into the message, and
// everything else is a slice of that copy. A message is reused for the next request of its
// connection, so that a kept-alive connection allocates nothing.
//
// A [Reader] of a connection finds the end of a head ([Reader.ReadRequest],
// [Reader.ReadResponse]), parses it into a [Request] or [Response], and provides the body as a
// [FramedBody], which ends where the framing says. Code that forwards a message sees a [Body],
// which may come from a connection, from memory ([MemoryBody]) or from a file. Output is appended
// to a byte slice ([AppendChunk], [AppendLastChunk]), so that much can be sent in one system
// call. The forwarding code writes heads itself, without hop-by-hop fields.
//
// A message that RFC 9112 calls invalid or ambiguous is refused with an [Error] that carries
// the status of the response. Nothing is repaired: the next hop might understand a repaired
// message differently.
package message

// A Field is one field line. Both slices belong to the message.
type Field struct{ Name, Value []byte }

// Fields are a message's field lines in the order they were sent.
type Fields []Field

// Lengths of a body that are not a number of bytes.
const (
	None       int64 = 0
	Chunked    int64 = -1
	UntilClose int64 = -2 // responses only: the body ends with the connection
)

// A Form is the form of a request target (RFC 9112, section 3.2).
type Form uint8

const (
	Origin    Form = iota // /path?query
	Absolute              // http://host/path
	Authority             // host:port, CONNECT only
	Asterisk              // *, OPTIONS only
)

// A Request is a request head with its body.
type Request struct {
	Method string // as sent; the registered methods cost no allocation
	Target []byte // request target as sent
	Form   Form
	Scheme string // "http", "https", … of an absolute target, lower case, else ""
	// Host and Port are those of the target if it names them, or else of the Host field. Host
	// is as sent, without brackets; Port is 0 if none was given.
	Host []byte
	Port uint16
	// PortNamed says that the client wrote the port, which may be the usual one: signatures of
	// requests cover it.
	PortNamed bool
	Path      []byte // path and query as sent; "/" when an absolute target has none
	Proto     uint8  // 10, 11 or 20
	Fields
	Length  int64  // bytes of body, or None, or Chunked
	Close   bool   // the client will not send another request (version and Connection)
	Expect  bool   // Expect: 100-continue
	Upgrade []byte // value of Upgrade when Connection names it, else nil
	Body    Body   // nil when Length is None
	// Dial is the host to connect to instead of Host: from an edit of the policy, or the
	// original destination of a redirected connection. "" means Host. Responses to requests with
	// different Dial do not belong to one origin.
	Dial string

	raw []byte // the head as sent, from the request line to the empty line
}

// A Response is a response head with its body.
//
// A response of a round trip always has a Body, which may be at its end from the beginning; close
// it.
type Response struct {
	Status int
	Reason []byte // reason phrase as sent
	Proto  uint8
	Fields
	Length  int64 // bytes of body, or None, Chunked, UntilClose
	Close   bool  // the connection cannot be used again after this
	Upgrade []byte
	Folded  bool // a field spanned several lines, and a relaxed Reader has joined them
	Body    Body // from a Reader: nil when Length is None, or when the status or method has no body
	// Personal says that it came over a connection on which one client signs in (NTLM,
	// Negotiate): it may be that client's, although the request has no Authorization.
	Personal bool

	raw []byte
}

// Safe reports whether a method changes nothing at the origin (RFC 9110 section 9.2.1). Unknown
// methods are not safe.
func Safe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return false
}

// Raw returns the head as it was sent, including the empty line. It is nil for a message that
// was not read from HTTP/1.
func (q *Request) Raw() []byte { return q.raw }

// Raw returns the head as it was sent.
func (s *Response) Raw() []byte { return s.raw }

// An Error is a message that cannot be accepted. Status is the response to a client (400, 413,
// 414, 417, 431, 501, 505); for a response read from upstream it is always 502.
type Error struct {
	Status int
	Reason string // the mistake, without quoting secrets: "two Host fields"
}

func (e *Error) Error() string { return "bad message: " + e.Reason }

// EqualName compares two field names without case, ASCII only (RFC 9110 section 5.1).
func EqualName(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x != y {
			if x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z' {
				return false
			}
		}
	}
	return true
}

// Get returns the value of the first field called name, or nil.
func (f Fields) Get(name string) []byte {
	for i := range f {
		if EqualName(f[i].Name, name) {
			return f[i].Value
		}
	}
	return nil
}

// Has reports whether there is a field called name.
func (f Fields) Has(name string) bool {
	for i := range f {
		if EqualName(f[i].Name, name) {
			return true
		}
	}
	return false
}

// Add appends a field.
func (f *Fields) Add(name, value string) {
	*f = append(*f, Field{[]byte(name), []byte(value)})
}

// Del removes every field called name, keeping the order of the others.
func (f *Fields) Del(name string) {
	g := (*f)[:0]
	for _, x := range *f {
		if !EqualName(x.Name, name) {
			g = append(g, x)
		}
	}
	*f = g
}

// Set replaces the first field called name and removes others of that name. It appends a field
// if there was none.
func (f *Fields) Set(name, value string) {
	done := false
	g := (*f)[:0]
	for _, x := range *f {
		if EqualName(x.Name, name) {
			if done {
				continue
			}
			x.Value, done = []byte(value), true
		}
		g = append(g, x)
	}
	*f = g
	if !done {
		f.Add(name, value)
	}
}

// HasToken reports whether one of the fields called name lists token (in a comma-separated
// list, ignoring case and parameters after ";").
func (f Fields) HasToken(name, token string) bool {
	for i := range f {
		if EqualName(f[i].Name, name) && listHas(f[i].Value, token) {
			return true
		}
	}
	return false
}

func listHas(v []byte, token string) bool {
	for len(v) > 0 {
		i := 0
		for i < len(v) && v[i] != ',' {
			i++
		}
		item := v[:i]
		if i < len(v) {
			i++
		}
		v = v[i:]
		for j, c := range item {
			if c == ';' {
				item = item[:j]
				break
			}
		}
		if EqualName(trim(item), token) {
			return true
		}
	}
	return false
}

// trim removes optional white space (RFC 9110 section 5.6.3) from both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
