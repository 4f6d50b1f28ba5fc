package event

import (
	"net/netip"
	"time"
)

// An Anonymiser is a store that takes out of its old rows who was behind them.
type Anonymiser interface {
	// Anonymise is called before the first Write. Each Write from then on makes
	// some of the rows older than that anonymous ([Row.Anonymise]), and what was
	// derived from them; writes without rows, too.
	Anonymise(after time.Duration)
}

// Bits that stay of a client's address: those that a provider gives to a site.
const (
	anonymousIPv4 = 24
	anonymousIPv6 = 48
)

// Anonymous returns what stays of a client: the network, as its first address.
func Anonymous(c netip.Addr) netip.Addr {
	if !c.IsValid() {
		return c
	}
	bits := anonymousIPv6
	if c.Is4() {
		bits = anonymousIPv4
	}
	p, _ := c.Prefix(bits) // no error: an address has more bits
	return p.Addr()
}

// Anonymise takes out who was behind a row: the user, the client but for its
// network, the note, and findings that name one of them. It says whether
// anything of it was there. What was asked for stays.
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
