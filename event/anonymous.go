package event

import (
	"net/netip"
	"time"

	"shuultuur/lib/clock"
)

// An Ager is a store that deletes rows, or makes them anonymous, by their age.
type Ager interface {
	// Mind is called before the first Write. From then on the store asks the guard before it
	// does either.
	Mind(*clock.Guard)
}

// An Anonymiser is a store that removes identities from its old rows.
type Anonymiser interface {
	// Anonymise is called before the first Write. From then on each Write, even one without
	// rows, makes some of the rows that are older than after anonymous ([Row.Anonymise]), and
	// the data derived from them.
	Anonymise(after time.Duration)
}

// These bits of a client's address are kept: the prefix that a provider assigns to a site.
const (
	anonymousIPv4 = 24
	anonymousIPv6 = 48
)

// Anonymous returns the network of a client, as its first address.
func Anonymous(c netip.Addr) netip.Addr {
	if !c.IsValid() {
		return c
	}
	bits := anonymousIPv6
	if c.Is4() {
		bits = anonymousIPv4
	}
	p, _ := c.Prefix(bits) // there is no error, because no prefix is longer than its address
	return p.Addr()
}

// Anonymise removes the identity from a row: the user, the client except its
// network, the note, and findings that name one of them. It reports whether
// there was any. The requested URL stays.
func (r *Row) Anonymise() (changed bool) {
	var who Person
	if r.User != "" {
		who.Users = []string{r.User}
	}
	if r.Client.IsValid() {
		who.Clients = []netip.Addr{r.Client}
	}
	client := Anonymous(r.Client)
	if r.User == "" && r.Note == "" && r.Client == client {
		return false
	}
	if who.In(r.Evidence) || who.In(r.Findings) {
		r.Evidence, r.Findings = "", ""
	}
	r.Client, r.User, r.Note = client, "", ""
	return true
}
