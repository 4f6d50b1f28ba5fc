package resolver

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"shuultuur/dns"
	"shuultuur/setting"
)

// local are the names that are answered here: one's own, and those that mean
// nothing elsewhere.
type local struct {
	exact  map[string]*host // by name in wire form
	below  map[string]*host // "*.…": by what is right of the "*."
	routed map[string]struct{}
	kinds  map[string]kind
}

// A host is what a name of one's own stands for.
type host struct {
	v4, v6 [][]byte
	alias  string   // another name, as text
	names  [][]byte // of an address: what PTR answers, in wire form
}

// A kind is how a name is answered that is special by a standard.
type kind uint8

const (
	nowhere  kind = iota + 1 // there is no such name
	loopback                 // this machine, whoever asks
	empty                    // the domain is there, nothing else
)

// localTTL is the TTL of names of one's own, in seconds: they change when the
// settings do.
const localTTL = 60

// Bounds of a hosts file.
const (
	maxHostsFile = 64 << 20
	maxHosts     = 1 << 20
)

func newLocal(cfg Config) (l local, err error) {
	l = local{exact: map[string]*host{}, below: map[string]*host{}, routed: map[string]struct{}{}, kinds: specialNames()}
	for i, file := range cfg.HostsFiles {
		if err := l.file(string(file)); err != nil {
			return l, setting.At(fmt.Sprintf("hosts-files[%d]", i), err)
		}
	}
	for name, targets := range cfg.Hosts { // after the files: a name's last word
		if err := l.own(name, targets); err != nil {
			return l, setting.At("hosts."+name, err)
		}
	}
	l.sixth(cfg.DNS64)
	return l, nil
}

// own adds a name of the settings.
func (l *local) own(name string, targets []string) error {
	in := l.exact
	rest, wild := strings.CutPrefix(name, "*.")
	if wild {
		in = l.below
	}
	key, err := dns.Name(rest)
	if err != nil {
		return err
	}
	if len(key) == 1 {
		return errors.New("the root cannot have another answer")
	}
	if len(targets) == 0 {
		return errors.New("it stands for nothing; give an address or another name")
	}
	h := new(host)
	for _, t := range targets {
		if a, err := netip.ParseAddr(t); err == nil {
			h.add(a)
			if !wild {
				l.pointer(a, key)
			}
			continue
		}
		if _, err := dns.Name(t); err != nil || len(targets) > 1 || t == "" {
			return fmt.Errorf("%q is neither an address nor one other name", t)
		}
		h.alias = strings.ToLower(strings.TrimSuffix(t, "."))
	}
	in[string(key)] = h
	return nil
}

func (h *host) add(a netip.Addr) {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		h.v4 = append(h.v4, a.AsSlice())
	} else {
		h.v6 = append(h.v6, a.AsSlice())
	}
}

// pointer makes an address lead back to a name.
func (l *local) pointer(a netip.Addr, name []byte) {
	key := string(dns.Reverse(a))
	h := l.exact[key]
	if h == nil {
		h = new(host)
		l.exact[key] = h
	}
	if len(h.names) < 8 {
		h.names = append(h.names, name)
	}
}

// file reads a file like /etc/hosts.
func (l *local) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading names of hosts: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxHostsFile {
		return fmt.Errorf("%s has %d bytes; block lists belong under lists, which take less memory", path, info.Size())
	}
	sc := bufio.NewScanner(f)
	for line := 1; sc.Scan(); line++ {
		text, _, _ := strings.Cut(sc.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			return fmt.Errorf("%s:%d: %q is not an address", path, line, fields[0])
		}
		for _, name := range fields[1:] {
			key, err := dns.Name(name)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", path, line, err)
			}
			h := l.exact[string(key)]
			if h == nil {
				h = new(host)
				l.exact[string(key)] = h
			}
			h.add(a)
			l.pointer(a, key)
		}
		if len(l.exact) > maxHosts {
			return fmt.Errorf("%s:%d: more than %d names; block lists belong under lists, which take less memory", path, line, maxHosts)
		}
	}
	return sc.Err()
}

// find returns what a name of one's own stands for, or nil. The labels of name
// begin where labels says.
func (l *local) find(name []byte, labels []uint8) *host {
	if len(l.exact) > 0 {
		if h := l.exact[string(name)]; h != nil {
			return h
		}
	}
	if len(l.below) > 0 {
		for i := 1; i < len(labels); i++ {
			if h := l.below[string(name[labels[i]:])]; h != nil {
				return h
			}
		}
	}
	return nil
}

// special says in which way a name means nothing elsewhere, and which of its
// labels begins the name that does; 0 where it is like others.
func (l *local) special(name []byte, labels []uint8) (k kind, at int) {
	for i := len(labels) - 1; i >= 0; i-- {
		if k := l.kinds[string(name[labels[i]:])]; k != 0 {
			if l.isRouted(name, labels) {
				return 0, 0
			}
			return k, i
		}
	}
	return 0, 0
}

// answer answers q, whose name special knows.
func (l *local) answer(k kind, at int, q *dns.Query, a *dns.Reply, b *blocker) {
	switch {
	case k == loopback && q.Type == typeA:
		a.Record(nil, typeA, classIN, localTTL, loopback4[:])
		a.Answers++
	case k == loopback && q.Type == typeAAAA:
		a.Record(nil, typeAAAA, classIN, localTTL, loopback6[:])
		a.Answers++
	case k == loopback || k == empty && at == 0:
		b.noData(a)
	default:
		a.Rcode = rcodeNXDomain
		b.noData(a)
	}
}

var (
	loopback4 = [4]byte{127, 0, 0, 1}
	loopback6 = [16]byte{15: 1}
)

// answer answers q with what h stands for.
func (h *host) answer(q *dns.Query, a *dns.Reply, b *blocker) {
	records := h.v4
	switch q.Type {
	case typeAAAA:
		records = h.v6
	case typePTR:
		records = h.names
	case typeA:
	default:
		records = nil
	}
	for _, data := range records {
		a.Record(nil, q.Type, classIN, localTTL, data)
		a.Answers++
	}
	if len(records) == 0 {
		b.noData(a)
	}
}

// isRouted says whether the name has an upstream of its own.
func (l *local) isRouted(name []byte, labels []uint8) bool {
	for _, i := range labels {
		if _, ok := l.routed[string(name[i:])]; ok {
			return true
		}
	}
	return false
}

// specialNames are those of RFC 6761, 6762, 7686, 8375, 9462, 9476, and the
// reverse zones of private networks of RFC 6303 and RFC 7793, by name in wire
// form.
func specialNames() map[string]kind {
	m := map[string]kind{
		"\x09localhost\x00":                          loopback,
		"\x07invalid\x00":                            nowhere,
		"\x05onion\x00":                              nowhere,
		"\x04test\x00":                               nowhere,
		"\x03alt\x00":                                nowhere,
		"\x05local\x00":                              nowhere,
		"\x08internal\x00":                           nowhere,
		"\x04home\x04arpa\x00":                       empty,
		"\x08resolver\x04arpa\x00":                   empty,
		"\x07service\x04arpa\x00":                    empty,
		string(reverse6("d", "f")):                   empty, // RFC 4193, assigned locally
		string(reverse6("8", "e", "f")):              empty, // link-local
		string(reverse6("9", "e", "f")):              empty,
		string(reverse6("a", "e", "f")):              empty,
		string(reverse6("b", "e", "f")):              empty,
		string(dns.Reverse(netip.IPv6Loopback())):    empty,
		string(dns.Reverse(netip.IPv6Unspecified())): empty,
		string(dns.Reverse(netip.MustParseAddr("255.255.255.255"))): empty,
	}
	for _, net := range []string{"0", "10", "127", "254.169", "168.192", "2.0.192", "100.51.198", "113.0.203"} {
		m[string(reverse4(net))] = empty
	}
	for i := 16; i < 32; i++ {
		m[string(reverse4(fmt.Sprint(i, ".172")))] = empty
	}
	for i := 64; i < 128; i++ {
		m[string(reverse4(fmt.Sprint(i, ".100")))] = empty
	}
	return m
}

func reverse4(net string) []byte {
	var name []byte
	for label := range strings.SplitSeq(strings.ReplaceAll(net, " ", ""), ".") {
		name = append(append(name, byte(len(label))), label...)
	}
	return append(name, "\x07in-addr\x04arpa\x00"...)
}

func reverse6(digits ...string) []byte {
	var name []byte
	for _, d := range digits {
		name = append(append(name, 1), d...)
	}
	return append(name, "\x03ip6\x04arpa\x00"...)
}

// canary says whether a name is one by which browsers and devices ask whether
// they may use encrypted DNS or relays of their own. That it does not exist
// means no.
func canary(name []byte) bool {
	switch string(name) {
	case "\x13use-application-dns\x03net\x00", // Firefox
		"\x04mask\x06icloud\x03com\x00", "\x07mask-h2\x06icloud\x03com\x00": // iCloud Private Relay
		return true
	}
	return false
}

// Own returns what says whether a name has an answer in the settings, which is
// given before any policy is asked.
func Own(cfg Config) (func(name string) bool, error) {
	l, err := newLocal(cfg)
	if err != nil {
		return nil, err
	}
	return func(name string) bool {
		key, err := dns.Name(name)
		if err != nil {
			return false
		}
		if l.exact[string(key)] != nil {
			return true
		}
		for len(key) > 1 {
			if key = key[1+key[0]:]; l.below[string(key)] != nil {
				return true
			}
		}
		return false
	}, nil
}
