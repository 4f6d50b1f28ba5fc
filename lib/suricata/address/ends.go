package address

import (
	"errors"
	"net/netip"

	"shuultuur/lib/suricata/rule"
)

// Ends are the addresses and ports of a rule; nil means any.
type Ends struct {
	Src, Dst *Set
	sp, dp   *ports
}

// Match reports whether a connection has such ends. client says that src opened it.
func (e *Ends) Match(src, dst netip.AddrPort, client bool) bool {
	return (e.sp == nil || e.sp.has(src.Port())) && (e.dp == nil || e.dp.has(dst.Port())) &&
		(e.Src == nil || e.Src.Has(src.Addr(), client)) && (e.Dst == nil || e.Dst.Has(dst.Addr(), !client))
}

// An Parser parses the addresses and ports of rules. Rules that name the same share a set.
type Parser struct {
	vars, portVars map[string]string
	addresses      map[string]*Set
	ports          map[string]*ports
}

// NewParser returns a parser that knows groups of addresses and of ports.
func NewParser(vars, portVars map[string]string) *Parser {
	return &Parser{vars: vars, portVars: portVars, addresses: map[string]*Set{}, ports: map[string]*ports{}}
}

// Ends parses those of a rule.
func (p *Parser) Ends(h *rule.Header) (e Ends, err error) {
	var errs [4]error
	e.Src, errs[0] = p.address(h.Src)
	e.Dst, errs[1] = p.address(h.Dst)
	e.sp, errs[2] = p.port(h.SrcPort)
	e.dp, errs[3] = p.port(h.DstPort)
	return e, errors.Join(errs[:]...)
}

func (p *Parser) address(s string) (*Set, error) {
	if a, ok := p.addresses[s]; ok {
		return a, nil
	}
	a, err := Parse(s, p.vars)
	if err != nil {
		return nil, err
	}
	if a.any && len(a.without) == 0 {
		a = nil
	}
	p.addresses[s] = a
	return a, nil
}

func (p *Parser) port(s string) (*ports, error) {
	if x, ok := p.ports[s]; ok {
		return x, nil
	}
	x, err := parsePorts(s, p.portVars, 0)
	if err != nil {
		return nil, err
	}
	if x.any && len(x.without) == 0 {
		x = nil
	}
	p.ports[s] = x
	return x, nil
}
