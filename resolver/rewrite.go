package resolver

import (
	"fmt"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// record makes a record from a rule's value, nil if that is invalid. A TXT value is one text,
// including blanks and quotes.
func (l *lookup) record(value string) miekg.RR {
	q, ttl := l.q, l.r.block.ttl
	if q.Type == dns.TypeTXT {
		x := &miekg.TXT{Hdr: miekg.RR_Header{Name: dns.Text(q.Name), Rrtype: dns.TypeTXT, Class: dns.ClassIN, Ttl: ttl}}
		for s := range slices.Chunk([]byte(value), 255) {
			x.Txt = append(x.Txt, escapeText(s))
		}
		return x
	}
	rr, err := miekg.NewRR(fmt.Sprintf("%s %d IN %s %s", dns.Text(q.Name), ttl, dns.TypeName(q.Type), value))
	if err != nil {
		return nil
	}
	return rr
}

// escapeText escapes bytes as miekg/dns reads them.
func escapeText(s []byte) string {
	var b strings.Builder
	for _, c := range s {
		if c == '\\' || c == '"' || c < ' ' || c > '~' {
			fmt.Fprintf(&b, "\\%03d", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// rewrite answers by a rule of an ad blocker: modifier is "dnsrewrite=rcode;type;value";
// several are joined by "|", and the first error or alias takes precedence over records. Other
// modifiers have no effect.
func (l *lookup) rewrite(modifier string) {
	rest, ok := strings.CutPrefix(modifier, "dnsrewrite=")
	if !ok {
		return
	}
	for one := range strings.SplitSeq(rest, "|") {
		rcode, typ, value := rewriting(one)
		if code, ok := miekg.StringToRcode[rcode]; ok && code != 0 {
			l.a.Rcode, l.source = uint16(code), written
			if code == dns.RcodeNXDomain {
				l.noData()
			}
			return
		}
		if typ == dns.TypeCNAME && l.q.Type != dns.TypeCNAME {
			l.alias(strings.TrimSuffix(strings.ToLower(value), "."))
			return
		}
	}
	l.source = written
	for one := range strings.SplitSeq(rest, "|") {
		if _, typ, value := rewriting(one); typ == l.q.Type {
			l.add(l.record(value))
		}
	}
	if l.a.Answers == 0 {
		l.noData()
	}
}

// rewriting returns the parts of a rule; typ is 0 if there is no such type.
func rewriting(rule string) (rcode string, typ uint16, value string) {
	rcode, rest, _ := strings.Cut(rule, ";")
	name, value, _ := strings.Cut(rest, ";")
	typ, err := dns.Type(name)
	if err != nil {
		typ = 0
	}
	return strings.ToUpper(rcode), typ, value
}

// add adds a record to the answer; nil adds none.
func (l *lookup) add(rr miekg.RR) {
	if rr == nil {
		return
	}
	buf := make([]byte, 1024)
	if n, err := miekg.PackRR(rr, buf, 0, nil, false); err == nil {
		l.a.Buf = append(l.a.Buf, buf[:n]...)
		l.a.Answers++
	}
}
