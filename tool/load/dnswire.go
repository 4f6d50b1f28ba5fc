package load

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"shuultuur/lib/dns"
)

// The part of the DNS wire format (RFC 1035 section 4) that a client needs: it sends a header
// and a question, and gets a header and the same question.

const (
	dnsHeader   = 12
	maxQuestion = 255 + 4 // a name, its type and class
	maxQuery    = dnsHeader + maxQuestion
)

// appendQuery appends a query with ID 0 that asks for recursion.
func appendQuery(b []byte, name string, typ uint16) ([]byte, error) {
	b = append(b, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	wire, err := dns.Name(name)
	if err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint16(append(b, wire...), typ)
	return binary.BigEndian.AppendUint16(b, 1), nil // class IN
}

// dnsAnswer is the relevant part of an answer.
type dnsAnswer struct {
	id        uint16
	rcode     byte
	truncated bool
	question  []byte // including type and class; nil if omitted
}

// readAnswer parses the head of a message. It returns false unless it is an answer to one
// question, or to none, because servers omit the question if they could not read it.
func readAnswer(b []byte) (dnsAnswer, bool) {
	if len(b) < dnsHeader || b[2]&0x80 == 0 {
		return dnsAnswer{}, false
	}
	a := dnsAnswer{id: binary.BigEndian.Uint16(b), rcode: b[3] & 15, truncated: b[2]&2 != 0}
	switch binary.BigEndian.Uint16(b[4:]) {
	case 0:
		return a, true
	case 1:
	default:
		return dnsAnswer{}, false
	}
	i := dnsHeader
	for i < len(b) && b[i] != 0 {
		if b[i] > 63 {
			return dnsAnswer{}, false // the first name has nothing to point back to
		}
		i += 1 + int(b[i])
	}
	if i+5 > len(b) || i+5 > maxQuery {
		return dnsAnswer{}, false
	}
	a.question = b[dnsHeader : i+5]
	return a, true
}

// Queries are queries in wire form, one after another.
type Queries struct {
	wire []byte
	ends []uint32
}

// Len returns the number of queries.
func (q *Queries) Len() int { return len(q.ends) }

// Add appends a query. typ is A, AAAA or TYPE65, for example.
func (q *Queries) Add(name, typ string) error {
	t, err := dns.Type(typ)
	if err != nil {
		return err
	}
	wire, err := appendQuery(q.wire, name, t)
	if err != nil {
		return err
	}
	q.wire, q.ends = wire, append(q.ends, uint32(len(wire)))
	return nil
}

func (q *Queries) at(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = q.ends[i-1]
	}
	return q.wire[start:q.ends[i]]
}

// ReadQueries reads a query file in the format of dnsperf: a name and a type on each line;
// blank lines and those that begin with ; or # are skipped. file is for error messages.
func ReadQueries(r io.Reader, file string) (*Queries, error) {
	q := &Queries{}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxURLBytes)
	for line := 1; s.Scan(); line++ {
		words := strings.Fields(s.Text())
		if len(words) == 0 || words[0][0] == ';' || words[0][0] == '#' {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("%s:%d: %q must be a name and a type, as \"example.com A\"", file, line, s.Text())
		}
		if q.Len() == maxURLs {
			return nil, fmt.Errorf("%s:%d: more than %d queries", file, line, maxURLs)
		}
		if err := q.Add(words[0], words[1]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, line, err)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read queries from %q: %w", file, err)
	}
	if q.Len() == 0 {
		return nil, fmt.Errorf("%s: no queries in it", file)
	}
	return q, nil
}

// randomLabel is the length of the first label of a random name.
const randomLabel = 13

// RandomQueries makes queries for new names under zone: the first label depends on the seed
// and the number of the query.
func RandomQueries(zone, typ string) (*Queries, error) {
	q := &Queries{}
	if zone = strings.TrimSuffix(zone, "."); zone == "" {
		return nil, errors.New("random names need a zone, such as example.com")
	}
	if err := q.Add(strings.Repeat("x", randomLabel)+"."+zone, typ); err != nil {
		return nil, err
	}
	return q, nil
}

// scramble writes the n-th random label over the placeholder in a query of RandomQueries.
func scramble(query []byte, seed, n uint64) {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	h := mix(seed, n)
	for i := range randomLabel {
		query[dnsHeader+1+i] = letters[h&31]
		h >>= 5
	}
}
