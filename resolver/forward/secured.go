package forward

import (
	"context"
	"errors"
	"fmt"
	miekg "github.com/miekg/dns"
	"slices"

	"shuultuur/lib/dns"
	"shuultuur/resolver/validate"
)

// newValidator makes the validator of the settings. It queries the same upstreams.
func (f *Forwarder) newValidator() error {
	if !f.cfg.Validate {
		if len(f.cfg.Anchors)+len(f.cfg.Negative) > 0 {
			return errors.New("trust anchors are set, but validate is not")
		}
		return nil
	}
	v, err := validate.New(f.cfg.Config, func(ctx context.Context, name []byte, qtype uint16) ([]byte, error) {
		q := &query{name: name, qtype: qtype, class: miekg.ClassINET, opt: Option{DO: true, CD: true}, watch: f.watching()}
		msg, _, err := f.relay(ctx, q)
		return msg, err
	})
	f.validator = v
	return err
}

// validated returns an answer of g, the group of domain, that is not bogus, with AD if it is
// secure. After a bogus answer it asks once more, at another upstream if there is one.
//
// The settings say who answers for a domain with a route, so its answers need no signatures:
// the domain may not exist elsewhere, or be another one there. They are validated where that can
// succeed.
func (f *Forwarder) validated(ctx context.Context, q *query, g *group, domain []byte) ([]byte, string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.limits.total)
	defer cancel()
	if len(domain) > 0 && !f.validator.Holds(ctx, dns.Text(q.name), dns.Text(domain)) {
		msg, to, err := f.relay(ctx, q)
		if err == nil {
			msg[3] &^= bitAD // what an upstream says of itself is not our validation
		}
		return msg, to, err
	}
	full := *q
	full.opt.DO, full.opt.CD = true, true
	var res validate.Result
	var begin []byte
	for range 2 {
		msg, to, err := f.relay(ctx, &full)
		if err != nil {
			return nil, to, err
		}
		m := new(miekg.Msg)
		if err := m.Unpack(msg); err != nil {
			return nil, to, &Error{EDE: dns.EDENetwork, Err: fmt.Errorf("reading the answer of %s for %s: %w", to, dns.Text(q.name), err)}
		}
		until := ""
		if c, open := dns.OpenAlias(msg); open {
			until = dns.Text(c.Last)
		}
		if res = f.validator.Validate(ctx, m, until); res.Status != validate.Bogus {
			out, err := trim(m, q.opt.DO, res.Status == validate.Secure).Pack()
			if err != nil {
				return nil, to, &Error{EDE: dns.EDENetwork, Err: fmt.Errorf("writing the answer for %s: %w", dns.Text(q.name), err)}
			}
			return out, to, nil
		}
		begin = beginning(m, q.opt.DO, &res)
		if len(g.upstreams) < 2 {
			break
		}
		full.avoid = to
	}
	return nil, full.avoid, &Error{EDE: res.EDE, Err: fmt.Errorf("validating %s: %s", dns.Text(q.name), res.Why), Aliases: begin}
}

// beginning returns the valid aliases with which a bogus answer begins, as a message that ends in
// the last of them; nil if there are none.
func beginning(m *miekg.Msg, do bool, res *validate.Result) []byte {
	names := map[string]bool{}
	for _, n := range res.Valid {
		names[n] = true
	}
	msg, err := trim(upTo(m, names), do, res.Begins == validate.Secure).Pack()
	if err != nil {
		return nil
	}
	if _, open := dns.OpenAlias(msg); !open { // a DNAME without its CNAME would say that there is nothing
		return nil
	}
	return msg
}

// trim removes from a validated message the records that were not validated or not
// requested.
func trim(m *miekg.Msg, do, secure bool) *miekg.Msg {
	m.AuthenticatedData, m.CheckingDisabled, m.Compress = secure, false, true
	qtype := m.Question[0].Qtype
	keep := func(rr miekg.RR, answer bool) bool {
		switch t := rr.Header().Rrtype; t {
		case miekg.TypeRRSIG, miekg.TypeNSEC, miekg.TypeNSEC3:
			return do || answer && (t == qtype || qtype == miekg.TypeANY)
		case miekg.TypeSOA:
			return true
		}
		return answer
	}
	m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool { return !keep(rr, true) })
	m.Ns = slices.DeleteFunc(m.Ns, func(rr miekg.RR) bool { return !keep(rr, false) })
	m.Extra = slices.DeleteFunc(m.Extra, func(rr miekg.RR) bool { return rr.Header().Rrtype != miekg.TypeOPT })
	return m
}
