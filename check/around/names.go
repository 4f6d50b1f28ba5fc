package around

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// A tunnel of names (iodine, dnscat2, dns2tcp) sends what it carries in the labels of queries below one
// domain, and gets the other side's bytes in the answers. So it asks for many long names, each once, and
// mostly for records that hold more than an address. Services that look up digests of files or addresses
// of mail servers ask for long names too, but for addresses, and shorter ones.

const (
	mostDomains = 1024 // rows; a newer one takes the place of another
	shortName   = 28   // characters below the domain under which nothing is counted
	longName    = 90   // average of them, of queries for addresses
	namesWithin = time.Minute
	namesInARow = 16 // different long names after which it is a tunnel
	lastNames   = 16
)

// A domainRow is what is known about a client's queries below a domain.
type domainRow struct {
	key    uint64
	since  time.Time
	n      int // different names
	length int // all their characters below the domain
	rich   int // queries for records that hold more than an address
	last   [lastNames]uint32
}

// A names counts queries that may be a tunnel. The zero names is empty.
type names struct {
	mu   sync.Mutex
	rows [mostDomains]domainRow
}

// look counts a query, and says what is found if those below its domain are a tunnel's.
func (n *names) look(t *filter.Transaction) (says string) {
	if len(t.Host) < shortName+4 {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(t.Host)
	if err != nil {
		return ""
	}
	below := len(t.Host) - len(domain) - 1
	if below < shortName || !dense(t.Host[:below]) {
		return ""
	}
	var h maphash.Hash
	h.SetSeed(seed)
	a := t.Client.Addr.As16()
	h.Write(a[:])
	h.WriteString(domain)
	key := h.Sum64() | 1
	name := uint32(maphash.String(seed, t.Host))
	n.mu.Lock()
	defer n.mu.Unlock()
	r := &n.rows[key%mostDomains]
	if r.key != key || t.Start.Sub(r.since) > namesWithin {
		*r = domainRow{key: key, since: t.Start}
	}
	if !slices.Contains(r.last[:], name) { // what is asked again, by us or the client, says nothing
		r.last[r.n%lastNames] = name
		r.n++
		r.length += below
		if isRich(t.Type) {
			r.rich++
		}
	}
	if r.n < namesInARow || r.rich*2 < r.n && r.length < r.n*longName {
		return ""
	}
	r.since = t.Start // it goes on while queries come
	return fmt.Sprintf("%d different names below %.100q, of %d characters on average", r.n, domain, r.length/r.n)
}

// isRich reports whether records of a type hold more than an address.
func isRich(typ uint16) bool {
	switch typ {
	case dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS, dns.TypePTR, dns.TypeDS, dns.TypeNS, dns.TypeSOA:
		return false
	}
	return true
}

// dense reports whether labels are made of a coding: the longest of them are no words with dashes.
func dense(labels string) bool {
	longest, from := 0, 0
	for i := 0; i <= len(labels); i++ {
		if i == len(labels) || labels[i] == '.' {
			if i-from > longest {
				longest = i - from
			}
			from = i + 1
		}
	}
	return longest >= shortName-8 && strings.Count(labels, "-")*8 < len(labels)
}
