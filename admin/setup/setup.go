// Package setup has the first steps on a new machine: five pages that ask who looks after the filter, who
// is here, what is closed and how the network is, and then wait for the first device.
//
// The answers wait in memory until the last question. Then the settings are written and taken into use,
// the first account is made, and the browser is signed in. The link with the token is good until then.
package setup

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/admin/lists"
	"shuultuur/lib/lan"
)

// A Setup asks the first questions on a new machine. Its link is valid until they are answered.
type Setup struct {
	// Token opens the pages.
	Token string
	// Topics are the possible subjects of filtering.
	Topics []Topic
	// Machine says what is known of this machine and its network.
	Machine func(ctx context.Context) Machine
	// Write writes settings and takes them into use, or changes nothing.
	Write func(ctx context.Context, a Answers) error
	// Free moves aside what has port 53 of an address.
	Free func(ctx context.Context, at netip.Addr) error
	// Places are where devices reach the gateway now.
	Places func() Places
	// First returns the first query and the first request of each device since a time, oldest first.
	First func(ctx context.Context, since time.Time) ([]First, error)
	// Arriving are the lists that are being fetched.
	Arriving func() []Arrival
	// Ended is called when the person goes home.
	Ended func()

	// Hosts are the addresses of this machine at which the link works.
	Hosts []string

	streams  atomic.Int64
	mu       sync.Mutex
	given    map[string]url.Values // answers by step; guarded by mu
	password string                // guarded by mu
	made     string                // the account; guarded by mu
	done     time.Time             // when all was written; guarded by mu
}

// A Topic is something that can be filtered.
type Topic struct {
	Name, What string
	Icon       string
	Lists      []TopicList
	Optional   bool // it is not chosen at first: many people want it to pass
}

// A TopicList is a list that is fetched for a topic.
type TopicList struct{ Name, What, Size, Licence string }

// Answers are a person's choices.
type Answers struct {
	Account    string   // name of the first account
	Who        string   // home, school or company
	Name       string   // of the network
	Contact    string   // whom a blocked person may ask
	Children   bool     // children use the network
	People     []Person // whose devices are known
	Topics     []string // by name
	SafeSearch bool
	Proxy, DNS bool
	// At is the address of this machine for the whole network; the zero Addr: for this machine alone.
	At          netip.Addr
	Upstreams   []netip.Addr // name servers that this machine asks now
	Portal      uint16       // port of the pages for devices
	Certificate bool         // decrypt encrypted connections
	Domains     []string     // to which the root certificate is limited; none: no limit
	Final       bool         // it vouches for no other authority
}

// A Person is the owner of a device.
type Person struct {
	Name  string
	Addr  netip.Addr
	Child bool
}

// A Machine is what is known of this machine and its network.
type Machine struct {
	Addresses []lan.Address
	Router    netip.Addr
	Upstreams []netip.Addr
	Devices   []Device
	// Port53 is who has port 53, and NoRight that this user may not use it.
	Port53  []lan.Holder
	NoRight bool
	// Internet is whether a server of the internet answers.
	Internet bool
}

// A Device is another machine of the network.
type Device struct {
	Addr netip.Addr
	Name string // by itself; "" if it does not say
}

// Places are addresses for devices; a place that there is not is "".
type Places struct {
	Addr   string // of this machine in the network
	DNS    string // address of the name server, without the usual port
	Proxy  string // host:port
	Portal string // URL of the pages for devices
	Pages  string // URL of these pages for other machines
	Router string // its address
	Root   bool   // devices have to trust a certificate
}

// A First is the first that a device asked for.
type First struct {
	Device  string // its name, or its address
	Site    string
	Query   bool // a question for a name; otherwise a request for a page
	Closed  bool
	At      time.Time
	Took    time.Duration
	Decrypt bool // the device trusts the certificate
}

// An Arrival is a list that is being fetched, or is missing.
type Arrival struct {
	Name     string
	Fetching lists.FetchProgress
}

// Open reports whether the questions are still open.
func (s *Setup) Open() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done.IsZero()
}

// lockFor locks s if its link is valid and token is right.
func (s *Setup) lockFor(token string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	if s.done.IsZero() && equalSecrets(token, s.Token) {
		return true
	}
	s.mu.Unlock()
	return false
}

// equalSecrets compares secrets in constant time.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return b != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Link returns the link to the first steps at an address of the admin pages, "" if they are over.
func (s *Setup) Link(host string) string {
	if !s.Open() {
		return ""
	}
	return (&url.URL{Scheme: "http", Host: host, Path: "/setup", RawQuery: "token=" + s.Token}).String()
}

// Serves reports whether a path belongs to the first steps, which other machines reach without TLS
// until they are over.
func Serves(r *http.Request) bool {
	p := r.URL.Path
	return p == "/setup" || strings.HasPrefix(p, "/setup/") || strings.HasPrefix(p, "/static/")
}

// answers returns the choices so far. s is locked.
func (s *Setup) answers(m *Machine) Answers {
	you, people, filter, network := s.values("you", m), s.values("people", m), s.values("filter", m), s.values("network", m)
	way := network.Get("way")
	a := Answers{
		Account: you.Get("name"), Contact: people.Get("contact"),
		Who: people.Get("who"), Name: people.Get("network"), Children: people.Has("children"),
		Topics: filter["topic"], SafeSearch: filter.Has("safesearch"),
		Proxy: way != "dns", DNS: way != "proxy", Upstreams: m.Upstreams, Certificate: network.Has("certificate"),
	}
	if a.Certificate {
		a.Domains, a.Final = domains(network), network.Has("final")
	}
	if at, err := netip.ParseAddr(network.Get("at")); err == nil {
		a.At = at
	}
	for i, d := range people["device"] {
		addr, err := netip.ParseAddr(d)
		if err != nil || i >= len(people["person"]) {
			continue
		}
		if name := strings.TrimSpace(people["person"][i]); name != "" {
			a.People = append(a.People, Person{name, addr, slices.Contains(people["child"], d)})
		}
	}
	return a
}
