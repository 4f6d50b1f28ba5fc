package accounting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"layeh.com/radius"

	"shuultuur/identity/session"
)

// Source is the name of RADIUS sessions in the record.
const Source = "radius"

// Attributes (RFC 2865, 2866, 2869, 3162, 6911).
const (
	userName        = 1
	framedAddress   = 8
	filterID        = 11
	class           = 25
	sessionTimeout  = 27
	statusType      = 40
	sessionID       = 44
	interimInterval = 85
	framedAddress6  = 168
)

// Values of Acct-Status-Type.
const (
	start1  = 1
	stop    = 2
	interim = 3
	on      = 7 // the client has restarted …
	off     = 8 // … or stops: it has no sessions
)

// A change is the content of a packet.
type change struct {
	kind   uint32
	user   string
	groups []string
	addrs  []netip.Addr
	id     string
	from   netip.Addr // the RADIUS client that sent it
	until  time.Time
	answer []byte
	back   func([]byte)
}

// begins reports whether the change begins or renews sessions.
func (ch *change) begins() bool { return ch.kind == start1 || ch.kind == interim }

// name identifies the session among those of all clients.
func (ch *change) name() string { return ch.from.String() + " " + ch.id }

// sessions returns the sessions that the change begins or renews. There are
// none while the address is unknown; a later packet brings it.
func (ch *change) sessions() (all []session.Session) {
	for _, a := range ch.addrs {
		all = append(all, session.Session{Addr: a, User: ch.user, Groups: ch.groups, Source: Source, ID: ch.id, By: ch.from.String(), Until: ch.until})
	}
	return all
}

// read parses a packet.
func (r *rules) read(b []byte, from netip.Addr, now time.Time) (ch change, err error) {
	secret := r.secret(from)
	switch {
	case secret == nil:
		return ch, errors.New("its sender is not among identity.accounting.clients")
	case len(b) < 20 || len(b) > maxPacket:
		return ch, fmt.Errorf("%d bytes are no packet of RADIUS", len(b))
	case radius.Code(b[0]) != radius.CodeAccountingRequest:
		return ch, fmt.Errorf("it is %s and not Accounting-Request: this port takes accounting only", radius.Code(b[0]))
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < 20 || n > len(b) {
		return ch, fmt.Errorf("its length field says %d, and %d bytes came", n, len(b))
	}
	b = b[:n] // the following bytes are padding
	for i := 20; i < n; i += int(b[i+1]) {
		if n-i < 2 || b[i+1] < 2 || int(b[i+1]) > n-i {
			return ch, errors.New("its attributes do not end where it ends")
		}
	}
	signed, err := verify(b, secret)
	switch {
	case err != nil:
		return ch, err
	case !signed && !r.unsigned:
		return ch, errors.New("it has no Message-Authenticator, which identity.accounting.unsigned: false asks for")
	}
	q, err := radius.Parse(b, secret)
	if err != nil {
		return ch, err
	}
	ch = change{from: from, until: now.Add(r.expire)}
	if ch.answer, err = answer(q); err != nil {
		return ch, err
	}
	if err := r.fill(&ch, b, now); err != nil {
		return ch, err
	}
	switch {
	case ch.kind == on, ch.kind == off, ch.kind == stop:
	case ch.kind != start1 && ch.kind != interim:
		return ch, fmt.Errorf("its Acct-Status-Type is %d: Start, Stop, Interim-Update, Accounting-On and -Off are known", ch.kind)
	case ch.user == "" && len(ch.addrs) > 0:
		return ch, errors.New("it has no User-Name")
	}
	for _, n := range ch.sessions() {
		if ch.kind != start1 && ch.kind != interim {
			break
		}
		if _, err := session.Check(n, now); err != nil {
			return ch, err
		}
	}
	return ch, nil
}

// fill reads the attributes of a packet whose lengths were checked.
func (r *rules) fill(ch *change, b []byte, now time.Time) error {
	var timeout, every time.Duration
	for i := 20; i < len(b); i += int(b[i+1]) {
		v := b[i+2 : i+int(b[i+1])]
		switch b[i] {
		case userName:
			ch.user = string(v)
		case sessionID:
			ch.id = strings.ToValidUTF8(string(v), "�")
		case class:
			if r.class {
				ch.group(v)
			}
		case filterID:
			if r.filter {
				ch.group(v)
			}
		case framedAddress, framedAddress6:
			a, ok := netip.AddrFromSlice(v)
			if !ok || b[i] == framedAddress && !a.Is4() || b[i] == framedAddress6 && !a.Is6() {
				return fmt.Errorf("its address has %d bytes", len(v))
			}
			if a = a.Unmap(); a.IsUnspecified() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || a == netip.AddrFrom4([4]byte{255, 255, 255, 254}) {
				continue // "not known yet" and "chosen by the user or by the server" (RFC 2865, 5.8)
			}
			if len(ch.addrs) < 16 {
				ch.addrs = append(ch.addrs, a)
			}
		case statusType, sessionTimeout, interimInterval:
			if len(v) != 4 {
				return fmt.Errorf("attribute %d has %d bytes and not 4", b[i], len(v))
			}
			n := binary.BigEndian.Uint32(v)
			switch b[i] {
			case statusType:
				ch.kind = n
			case sessionTimeout:
				timeout = time.Duration(n) * time.Second
			default:
				every = time.Duration(n) * time.Second
			}
		}
	}
	if every > 0 {
		ch.until = now.Add(min(r.expire, 3*every+time.Minute)) // without a packet for this long, the client is gone
	}
	if timeout > 0 && now.Add(timeout).Before(ch.until) {
		ch.until = now.Add(timeout)
	}
	return nil
}

// group appends the groups in a value: names separated by commas or semicolons,
// each also in the form "OU=name". A Class that is not text gives none.
func (ch *change) group(v []byte) {
	if !utf8.Valid(v) || strings.IndexFunc(string(v), unicode.IsControl) >= 0 {
		return
	}
	for g := range strings.FieldsFuncSeq(string(v), func(c rune) bool { return c == ',' || c == ';' }) {
		g = strings.TrimSpace(g)
		if len(g) > 3 && strings.EqualFold(g[:3], "ou=") {
			g = g[3:]
		}
		if g != "" && len(ch.groups) < 64 {
			ch.groups = append(ch.groups, g)
		}
	}
}
