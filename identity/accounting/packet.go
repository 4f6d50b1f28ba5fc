package accounting

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"layeh.com/radius"

	"shuultuur/identity/session"
)

// Attributes (RFC 2865, 2866, 2869, 3162, 4818, 6911).
const (
	userName        = 1
	nasAddress      = 4
	framedAddress   = 8
	filterID        = 11
	class           = 25
	sessionTimeout  = 27
	nasIdentifier   = 32
	statusType      = 40
	delayTime       = 41
	sessionID       = 44
	eventTimestamp  = 55
	interimInterval = 85
	nasAddress6     = 95
	framedPrefix6   = 97
	delegatedPrefix = 123
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

// kinds are the events that change sessions, by Acct-Status-Type.
var kinds = map[uint32]session.Kind{start1: session.Begins, interim: session.Continues, stop: session.Ends, on: session.Restarts, off: session.Restarts}

// A change is the content of a packet.
type change struct {
	session.Event
	status uint32
	unused string // why it changes nothing and never will, however often it is sent
	answer []byte
	back   func([]byte)
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
	ch = change{Event: session.Event{By: session.Reporter{Sender: from}, At: now}}
	if ch.answer, err = answer(q); err != nil {
		return ch, err
	}
	r.fill(&ch, b, now)
	if _, known := kinds[ch.status]; !known && ch.unused == "" {
		ch.unused = fmt.Sprintf("its Acct-Status-Type is %d: Start, Stop, Interim-Update, Accounting-On and -Off change sessions", ch.status)
	}
	ch.Kind = kinds[ch.status]
	return ch, nil
}

// fill reads the attributes of a packet whose lengths were checked. What it cannot use it leaves
// out: a packet that is refused would come again for ever.
func (r *rules) fill(ch *change, b []byte, now time.Time) {
	var timeout, every, delay time.Duration
	var stamp time.Time
	for i := 20; i < len(b); i += int(b[i+1]) {
		v := b[i+2 : i+int(b[i+1])]
		switch b[i] {
		case userName:
			ch.User = nameOf(v)
		case sessionID:
			ch.ID = nameOf(v)
		case nasIdentifier:
			ch.By.Name = strings.TrimSpace(nameOf(v))
		case nasAddress, nasAddress6:
			if a, ok := netip.AddrFromSlice(v); ok && !a.Unmap().IsUnspecified() && !ch.By.Addr.IsValid() {
				ch.By.Addr = a.Unmap()
			}
		case class:
			if r.class || r.units {
				ch.group(v, !r.class)
			}
		case filterID:
			if r.filter {
				ch.group(v, false)
			}
		case framedAddress, framedAddress6, framedPrefix6, delegatedPrefix:
			ch.address(b[i], v)
		case statusType:
			ch.status = number(v)
		case sessionTimeout:
			timeout = time.Duration(number(v)) * time.Second
		case interimInterval:
			every = time.Duration(number(v)) * time.Second
		case delayTime:
			delay = time.Duration(number(v)) * time.Second
		case eventTimestamp:
			stamp = time.Unix(int64(number(v)), 0)
		}
	}
	ch.date(stamp, delay, now)
	ch.Until = ch.At.Add(r.expire)
	if every > 0 {
		ch.Until = ch.At.Add(min(r.expire, 3*every+time.Minute)) // without a packet for this long, the client is gone
	}
	if timeout > 0 && ch.At.Add(timeout).Before(ch.Until) {
		ch.Until = ch.At.Add(timeout)
	}
	ch.Groups = session.FitGroups(ch.Groups, nil)
}

// date says when the event happened: at the Event-Timestamp, or as long ago as the access point
// has tried to tell. A timestamp of another year is that of a clock that was never set.
func (ch *change) date(stamp time.Time, delay time.Duration, now time.Time) {
	if delay > 0 && delay < session.MaxTime {
		ch.At, ch.Dated = now.Add(-delay), true
	}
	if age := now.Sub(stamp); age > -time.Minute && age < session.MaxTime {
		if stamp.Before(ch.At) {
			ch.At = stamp
		}
		ch.Dated = true
	}
}

// number returns the value of an attribute with 4 bytes, 0 for any other.
func number(v []byte) uint32 {
	if len(v) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(v)
}

// nameOf returns a name in UTF-8. Some access points end names with zeros, or write Latin-1.
func nameOf(v []byte) string {
	v = bytes.TrimRight(v, "\x00")
	if utf8.Valid(v) {
		return string(v)
	}
	latin := make([]rune, len(v))
	for i, c := range v {
		latin[i] = rune(c)
	}
	return string(latin)
}

// address adds the address or prefix in an attribute.
func (ch *change) address(kind byte, v []byte) {
	var n netip.Prefix
	switch kind {
	case framedPrefix6, delegatedPrefix: // a reserved byte, the length, as many bytes as needed
		if len(v) < 2 || len(v) > 18 || v[1] > 128 || int(v[1]) > (len(v)-2)*8 {
			return
		}
		var b [16]byte
		copy(b[:], v[2:])
		n = netip.PrefixFrom(netip.AddrFrom16(b), int(v[1])).Masked()
	default:
		a, ok := netip.AddrFromSlice(v)
		if !ok || kind == framedAddress && !a.Is4() || kind == framedAddress6 && !a.Is6() {
			return
		}
		a = a.Unmap()
		n = netip.PrefixFrom(a, a.BitLen())
	}
	if a := n.Addr(); a.IsUnspecified() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || a == netip.AddrFrom4([4]byte{255, 255, 255, 254}) {
		return // "not known yet" and "chosen by the user or by the server" (RFC 2865, 5.8)
	}
	if len(ch.Nets) < 16 && !slices.Contains(ch.Nets, n) {
		ch.Nets = append(ch.Nets, n)
	}
}

// group appends the groups in a value: names separated by commas or semicolons, each also in
// the form "OU=name", or only in this form. A Class that is not text gives none, nor one that a
// server made for itself, as FreeRADIUS and Cisco ISE do.
func (ch *change) group(v []byte, units bool) {
	if !utf8.Valid(v) || strings.IndexFunc(string(v), unicode.IsControl) >= 0 || bytes.HasPrefix(v, []byte("ai:")) || bytes.HasPrefix(v, []byte("CACS:")) {
		return
	}
	for g := range strings.FieldsFuncSeq(string(v), func(c rune) bool { return c == ',' || c == ';' }) {
		g = strings.TrimSpace(g)
		if len(g) > 3 && strings.EqualFold(g[:3], "ou=") {
			g = g[3:]
		} else if units {
			continue
		}
		if g != "" && len(ch.Groups) < 64 && len(g) <= 256 {
			ch.Groups = append(ch.Groups, g)
		}
	}
}
