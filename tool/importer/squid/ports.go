package squid

import (
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/setting"
)

// portSet has the ports that words name: ports and ranges.
type portSet [1 << 16]bool

func portsOf(words []string) *portSet {
	s := &portSet{}
	for _, w := range words {
		from, to, isRange := strings.Cut(w, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if w == "any" {
			a, b, err1, err2 = 0, 1<<16-1, nil, nil
		}
		for p := a; err1 == nil && err2 == nil && p <= b; p++ {
			s[p] = true
		}
	}
	return s
}

// words returns the ports as words.
func (s *portSet) words() (all []string) {
	for p := 1; p < len(s); p++ {
		if !s[p] {
			continue
		}
		from := p
		for p+1 < len(s) && s[p+1] {
			p++
		}
		if w := strconv.Itoa(from); p > from {
			all = append(all, w+"-"+strconv.Itoa(p))
		} else {
			all = append(all, w)
		}
	}
	return all
}

// The ports of the settings that Squid is shipped with, and ours for tunnels.
var (
	safePorts    = []string{"80", "21", "443", "70", "210", "1025-65535", "280", "488", "591", "777"}
	connectPorts = []string{"443", "8443"}
)

// only permits no more than the ports that keep selects, and reports whether any is left. Words
// that it need not change stay as they are.
func only(ports *setting.OneOrMore[string], standard []string, keep func(p int) bool) bool {
	words := []string(*ports)
	if words == nil {
		words = standard
	}
	s, changed, some := portsOf(words), false, false
	for p := range s {
		if s[p] && !keep(p) {
			s[p], changed = false, true
		}
		some = some || s[p]
	}
	if changed && some {
		*ports = s.words()
	}
	return some
}

// allPorts reports whether an acl has all ports that requests and tunnels may go to.
func allPorts(c *config, a *acl) bool {
	p := &c.w.Set.Proxy
	if p.SafePorts == nil {
		return false
	}
	has := portsOf(a.values)
	for _, words := range [][]string{p.SafePorts, p.ConnectPorts} {
		if words == nil {
			words = connectPorts
		}
		for n, is := range portsOf(words) {
			if is && !has[n] {
				return false
			}
		}
	}
	return true
}

// without takes ports that a line refuses to everybody out of those that are permitted. It reports
// whether the line is only about them.
func without(c *config, l access, a *acl) bool {
	alone := !l.allow && !slices.ContainsFunc(l.names, func(n string) bool {
		return n != "all" && c.acls[n] != a
	})
	if !alone {
		return false
	}
	no := portsOf(a.values)
	keep := func(p int) bool { return !no[p] }
	p := &c.w.Set.Proxy
	return only(&p.SafePorts, safePorts, keep) && only(&p.ConnectPorts, connectPorts, keep)
}
