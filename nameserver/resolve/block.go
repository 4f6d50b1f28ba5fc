package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/nameserver/wire"
)

// A blocker writes answers that refuse.
type blocker struct {
	answer filter.Answer
	ttl    uint32
	v4, v6 [][]byte // of the sinkhole
	soa    []byte   // data of the SOA record of negative answers
}

// maxBlockTTL bounds how long a refusal outlives its rule.
const maxBlockTTL = 24 * time.Hour

func newBlocker(cfg Block) (b blocker, err error) {
	if cfg.TTL < 0 || cfg.TTL > maxBlockTTL {
		return b, filter.Setting("ttl", fmt.Errorf("%v is not between 0s and %v", cfg.TTL, maxBlockTTL))
	}
	b.answer, b.ttl = cfg.Answer, uint32(cfg.TTL/time.Second)
	if cfg.TTL == 0 {
		b.ttl = 10
	}
	if b.answer == filter.Usual {
		b.answer = filter.Zero
	}
	for i, addr := range cfg.Sinkhole {
		addr = addr.Unmap()
		if !addr.IsValid() || addr.IsUnspecified() || addr.Zone() != "" {
			return b, filter.Setting(fmt.Sprintf("sinkhole[%d]", i), fmt.Errorf("%q is not an address to send a browser to", addr))
		}
		if addr.Is4() {
			b.v4 = append(b.v4, addr.AsSlice())
		} else {
			b.v6 = append(b.v6, addr.AsSlice())
		}
	}
	if b.answer == filter.Sinkhole && len(cfg.Sinkhole) == 0 {
		return b, filter.Setting("answer", errors.New("there is no sinkhole; name its addresses under sinkhole"))
	}
	// The names are of a domain that does not exist: nobody is to ask there.
	b.soa = append(b.soa, "\x02ns\x07invalid\x00\x0ahostmaster\x07invalid\x00"...)
	for _, v := range [...]uint32{1, 3600, 600, 86400, b.ttl} {
		b.soa = append(b.soa, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return b, nil
}

// noData says that there is nothing of this type.
func (b *blocker) noData(a *wire.Reply) {
	a.Record(nil, typeSOA, classIN, b.ttl, b.soa)
	a.Authorities++
}

// refuse writes an answer that refuses, as how says.
func (b *blocker) refuse(typ uint16, a *wire.Reply, how filter.Answer) {
	if how == filter.Usual {
		how = b.answer
	}
	if how == filter.Sinkhole && len(b.v4) == 0 && len(b.v6) == 0 {
		how = filter.Zero
	}
	switch how {
	case filter.NXDomain:
		a.Rcode = rcodeNXDomain
		b.noData(a)
	case filter.Refused:
		a.Rcode = rcodeRefused
	case filter.Zero:
		switch typ {
		case typeA:
			b.address(a, typ, zero[:4])
		case typeAAAA:
			b.address(a, typ, zero[:])
		default:
			b.noData(a)
		}
	case filter.Sinkhole:
		b.sinkhole(typ, a)
	default:
		b.noData(a)
	}
}

var zero [16]byte

func (b *blocker) sinkhole(typ uint16, a *wire.Reply) {
	addrs := b.v4
	if typ == typeAAAA {
		addrs = b.v6
	}
	if typ != typeA && typ != typeAAAA || len(addrs) == 0 {
		b.noData(a)
		return
	}
	for _, addr := range addrs {
		b.address(a, typ, addr)
	}
}

func (b *blocker) address(a *wire.Reply, typ uint16, addr []byte) {
	a.Record(nil, typ, classIN, b.ttl, addr)
	a.Answers++
}

// refuse answers as the verdict of a's transaction says, with an Extended DNS
// Error that names category, policy and transaction (RFC 8914).
func (r *Resolver) refuse(ctx context.Context, q *wire.Query, a *wire.Reply) wire.Outcome {
	t := &a.T
	v := &t.Verdict
	a.Rcode, a.AD = 0, false
	how := v.Names.Answer
	if v.Action == filter.Warn && r.warnTo != filter.Usual {
		how = r.warnTo
	}
	out := wire.Declined
	if m := v.Reason.Finding.Modifier; m != "" {
		out = r.rewrite(ctx, q, a, m)
	}
	switch out {
	case wire.Later:
		return out
	case wire.Declined:
		r.block.refuse(q.Type, a, how)
	}
	from := len(a.Text)
	a.Text = r.ids.Append(a.Text, q.At)
	t.ID = asString(a.Text[from:])
	a.HasEDE, a.EDE = true, v.Names.Error
	if a.EDE == 0 {
		a.EDE = edeBlocked
	}
	from = len(a.Text)
	a.Text = append(a.Text, v.Action.String()...)
	a.Text = appendPart(a.Text, " category ", v.Reason.Finding.Category)
	a.Text = appendPart(a.Text, " policy ", v.Reason.Policy)
	a.Text = appendPart(a.Text, " id ", t.ID)
	a.EDEText = a.Text[from:]
	return wire.Answered
}

// maxPart bounds a part of the text of an error, in bytes.
const maxPart = 100

func appendPart(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, name...)
	return append(dst, value[:min(len(value), maxPart)]...)
}

// isPrivate says whether an address lies in a network that is not of the
// Internet (RFC 1918, RFC 4193, loopback, link-local, unspecified, RFC 6598).
func isPrivate(a netip.Addr) bool {
	a = a.Unmap()
	if nat64.Contains(a) { // RFC 6052: what is behind it counts
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || shared.Contains(a) || this.Contains(a)
}

var (
	shared = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	this   = netip.MustParsePrefix("0.0.0.0/8")     // RFC 791
	nat64  = netip.MustParsePrefix("64:ff9b::/96")  // RFC 6052
)
