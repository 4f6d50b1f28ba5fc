package resolver

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// local are the names answered here: local names, and those that mean nothing elsewhere.
type local struct {
	exact  map[string]*host // by name in wire form
	below  map[string]*host // "*.…": by the name after the "*."
	routed map[string]struct{}
	kinds  map[string]kind

	damaged int      // lines and names of hosts files that are not used
	faults  []string // the first of them
}

// A host is the data of a local name.
type host struct {
	v4, v6 [][]byte
	alias  string   // another name, as text
	names  [][]byte // for an address: the PTR names, in wire form
}

// A kind is how a special-use name is answered.
type kind uint8

const (
	nowhere  kind = iota + 1 // the name does not exist
	loopback                 // this machine, for every client
	empty                    // the domain exists, but no names in it
)

// localTTL is the TTL of local names, in seconds: they change with the settings.
const localTTL = 60

// Limits of a hosts file.
const (
	maxHostsFile = 64 << 20
	maxHosts     = 1 << 20
	maxHostsLine = 64 << 10
	mostFaults   = 10 // that are described
)

func newLocal(cfg Config) (l local, err error) {
	l = local{exact: map[string]*host{}, below: map[string]*host{}, routed: map[string]struct{}{}, kinds: specialNames()}
	for i, file := range cfg.HostsFiles {
		if err := l.file(string(file)); err != nil {
			return l, setting.At(fmt.Sprintf("hosts-files[%d]", i), err)
		}
	}
	for name, targets := range cfg.Hosts { // after the files, so that these take precedence
		if err := l.addName(name, targets); err != nil {
			return l, setting.At("hosts."+name, err)
		}
	}
	l.sixth(cfg.DNS64)
	return l, nil
}

// addName adds a local name of the settings.
func (l *local) addName(name string, targets []string) error {
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
		return errors.New("it has no value; give an address or another name")
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

// pointer adds a PTR name to an address.
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

// file reads a file in the form of /etc/hosts. Damaged lines are skipped and noted; a file of which
// nothing is left is no hosts file.
func (l *local) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading names of hosts: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxHostsFile {
		return fmt.Errorf("%s has %d bytes; name block lists under lists, which needs less memory", path, info.Size())
	}
	in := bufio.NewReaderSize(f, maxHostsLine)
	var first error // fault
	good := 0       // names
	for line := 1; ; line++ {
		text, long, err := in.ReadLine()
		for more := long; more && err == nil; { // the rest of it
			_, more, err = in.ReadLine()
		}
		at := func(err error) {
			err = fmt.Errorf("%s:%d: %w", path, line, err)
			first = cmp.Or(first, err)
			l.fault(fmt.Errorf("%w; the line is skipped", err))
		}
		if long {
			at(fmt.Errorf("it has more than %d bytes", maxHostsLine))
		}
		switch {
		case errors.Is(err, io.EOF) && good == 0 && first != nil:
			return fmt.Errorf("%w; no line of the file is good", first)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s:%d: reading names of hosts: %w", path, line, err)
		case long:
			continue
		}
		before, _, _ := strings.Cut(string(text), "#")
		fields := strings.Fields(before)
		if len(fields) == 0 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			at(fmt.Errorf("%.100q is not an address", fields[0]))
			continue
		}
		for _, name := range fields[1:] {
			key, err := dns.Name(name)
			if err == nil && len(key) == 1 {
				err = errors.New("the root cannot have another answer")
			}
			if err != nil {
				l.fault(fmt.Errorf("%s:%d: %w; the name is skipped", path, line, err))
				continue
			}
			h := l.exact[string(key)]
			if h == nil {
				h = new(host)
				l.exact[string(key)] = h
			}
			h.add(a)
			l.pointer(a, key)
			good++
		}
		if len(l.exact) > maxHosts {
			return fmt.Errorf("%s:%d: more than %d names; name block lists under lists, which needs less memory", path, line, maxHosts)
		}
	}
}

// fault notes a damaged line of a hosts file. The other lines hold.
func (l *local) fault(err error) {
	if l.damaged++; len(l.faults) < mostFaults {
		l.faults = append(l.faults, "dns.hosts-files: "+err.Error())
	}
}

// find returns the host of a local name, and the number of labels of the domain that it is named
// by, or nil. labels are the offsets of the labels of name.
func (l *local) find(name []byte, labels []uint8) (h *host, depth int) {
	if len(l.exact) > 0 {
		if h := l.exact[string(name)]; h != nil {
			return h, len(labels)
		}
	}
	if len(l.below) > 0 {
		for i := 1; i < len(labels); i++ {
			if h := l.below[string(name[labels[i]:])]; h != nil {
				return h, len(labels) - i
			}
		}
	}
	return nil, -1
}

func (l *local) has(name []byte, labels []uint8) bool {
	h, _ := l.find(name, labels)
	return h != nil
}

// routeDepth returns the number of labels of the longest domain above name that has upstreams of
// its own, -1 when there is none.
func (l *local) routeDepth(name []byte, labels []uint8) int {
	if len(l.routed) == 0 {
		return -1
	}
	for i, at := range labels {
		if _, ok := l.routed[string(name[at:])]; ok {
			return len(labels) - i
		}
	}
	return -1
}

// special returns how a special-use name is answered, and the label at which the special
// suffix begins; 0 for other names.
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

// answer answers q for a name that special knows.
func (l *local) answer(k kind, at int, q *dns.Query, a *dns.Reply, b *blocker) {
	switch {
	case k == loopback && q.Type == dns.TypeA:
		a.Record(nil, dns.TypeA, dns.ClassIN, localTTL, loopback4[:])
		a.Answers++
	case k == loopback && q.Type == dns.TypeAAAA:
		a.Record(nil, dns.TypeAAAA, dns.ClassIN, localTTL, loopback6[:])
		a.Answers++
	case k == loopback || k == empty && at == 0:
		b.noData(a)
	default:
		a.Rcode = dns.RcodeNXDomain
		b.noData(a)
	}
}

var (
	loopback4 = [4]byte{127, 0, 0, 1}
	loopback6 = [16]byte{15: 1}
)

// answer answers q with the data of h.
func (h *host) answer(q *dns.Query, a *dns.Reply, b *blocker) {
	records := h.v4
	switch q.Type {
	case dns.TypeAAAA:
		records = h.v6
	case dns.TypePTR:
		records = h.names
	case dns.TypeA:
	default:
		records = nil
	}
	for _, data := range records {
		a.Record(nil, q.Type, dns.ClassIN, localTTL, data)
		a.Answers++
	}
	if len(records) == 0 {
		b.noData(a)
	}
}

// isRouted reports whether the name has its own upstream.
func (l *local) isRouted(name []byte, labels []uint8) bool {
	return l.routeDepth(name, labels) >= 0
}

// specialNames are those of RFC 6761, 6762, 7686, 8375, 9462, 9476, and the reverse zones of
// private networks of RFC 6303 and RFC 7793, by name in wire form.
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

// canary reports whether browsers and devices query a name to learn whether they may use their
// own encrypted DNS or relays. NXDOMAIN means no.
func canary(name []byte) bool {
	switch string(name) {
	case "\x13use-application-dns\x03net\x00", // Firefox
		"\x04mask\x06icloud\x03com\x00", "\x07mask-h2\x06icloud\x03com\x00": // iCloud Private Relay
		return true
	}
	return false
}

// LocalNames returns a function that reports whether the settings answer a name, before any policy.
func LocalNames(cfg Config) (func(name string) bool, error) {
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
