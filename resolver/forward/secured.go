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
		q := &query{name: name, qtype: qtype, class: miekg.ClassINET, opt: Option{DO: true, CD: true}}
		msg, _, err := f.relay(ctx, q)
		return msg, err
	})
	f.validator = v
	return err
}

// validated returns an answer that is not bogus, with AD if it is secure. After a bogus answer
// it asks once more, at another upstream if there is one.
func (f *Forwarder) validated(ctx context.Context, q *query) ([]byte, string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.limits.total)
	defer cancel()
	full := *q
	full.opt.DO, full.opt.CD = true, true
	var res validate.Result
	for range 2 {
		msg, to, err := f.relay(ctx, &full)
		if err != nil {
			return nil, to, err
		}
		m := new(miekg.Msg)
		if err := m.Unpack(msg); err != nil {
			return nil, to, &Error{dns.EDENetwork, fmt.Errorf("reading the answer of %s for %s: %w", to, dns.Text(q.name), err)}
		}
		if res = f.validator.Validate(ctx, m); res.Status != validate.Bogus {
			out, err := trim(m, q.opt.DO, res.Status == validate.Secure).Pack()
			if err != nil {
				return nil, to, &Error{dns.EDENetwork, fmt.Errorf("writing the answer for %s: %w", dns.Text(q.name), err)}
			}
			return out, to, nil
		}
		if len(f.route(q.name, q.qtype).upstreams) < 2 {
			break
		}
		full.avoid = to
	}
	return nil, full.avoid, &Error{res.EDE, fmt.Errorf("validating %s: %s", dns.Text(q.name), res.Why)}
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
