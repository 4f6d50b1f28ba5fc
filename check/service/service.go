// Package service has a catalogue of well-known services, such as YouTube and Roblox, and the
// check that finds them by their hosts, and by their own networks where a client connects to an
// address.
//
// The file services.txt has a line for each: its names, its name for people, its kind, and its hosts.
// Rules and quotas name services by the key service, which stands for the categories of this check.
// Importers translate the services of other filters by their names.
package service

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gaissmai/bart"
)

// A Service is one line of the catalogue.
type Service struct {
	ID       string   // as rules name it
	Others   []string // its names in other filters
	Name     string   // for people
	Kind     string   // games, video, social …
	Hosts    []string // each with all below it
	Networks []netip.Prefix
}

//go:embed services.txt
var catalogue string

// All returns the catalogue, by ID.
var All = sync.OnceValue(func() []Service {
	all, err := read(catalogue)
	if err != nil {
		panic("services.txt: " + err.Error()) // a test reads it
	}
	return all
})

// Find returns the service of a name, ours or that of another filter, in any case.
func Find(name string) (Service, bool) {
	name = strings.ToLower(name)
	for _, s := range All() {
		if s.ID == name || slices.Contains(s.Others, name) {
			return s, true
		}
	}
	return Service{}, false
}

// read reads a catalogue.
func read(text string) (all []Service, err error) {
	names := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		for _, name := range append([]string{s.ID}, s.Others...) {
			if names[name] {
				return nil, fmt.Errorf("line %d: the name %q is there already", n, name)
			}
			names[name] = true
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Service) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

func parse(line string) (s Service, err error) {
	f := strings.Split(line, "|")
	if len(f) != 4 {
		return s, errors.New("it has not four parts: names | name | kind | hosts and networks")
	}
	names, hosts := strings.Fields(f[0]), strings.Fields(f[3])
	s.Name, s.Kind = strings.TrimSpace(f[1]), strings.TrimSpace(f[2])
	if len(names) == 0 || s.Name == "" || s.Kind == "" || len(hosts) == 0 {
		return s, errors.New("one of its parts is empty")
	}
	s.ID, s.Others = names[0], names[1:]
	for _, h := range hosts {
		if strings.Contains(h, "/") {
			network, err := netip.ParsePrefix(h)
			if err != nil || network != network.Masked() {
				return s, fmt.Errorf("%q is no network", h)
			}
			s.Networks = append(s.Networks, network)
			continue
		}
		if h != strings.ToLower(h) || !strings.Contains(h, ".") || strings.Trim(h, ".") != h {
			return s, fmt.Errorf("%q is no host in lower case", h)
		}
		s.Hosts = append(s.Hosts, h)
	}
	return s, nil
}

// An index finds services by host and address.
type index struct {
	all      []Service
	hosts    map[string][]int // services by host
	networks bart.Table[[]int]
}

var indexed = sync.OnceValue(func() *index {
	x := &index{all: All(), hosts: map[string][]int{}}
	for i, s := range x.all {
		for _, h := range s.Hosts {
			x.hosts[h] = append(x.hosts[h], i)
		}
		for _, n := range s.Networks {
			at, _ := x.networks.Get(n)
			x.networks.Insert(n, append(at, i))
		}
	}
	return x
})

// each calls yield with each service of a host, as transactions have it, and the entry that it
// is found by: from the longest host on.
func (x *index) each(host string, yield func(s *Service, entry string)) {
	if addr, err := address(host); err == nil {
		if at, ok := x.networks.Lookup(addr.Unmap()); ok {
			for _, i := range at {
				yield(&x.all[i], host)
			}
		}
		return
	}
	for name := host; name != ""; {
		for _, i := range x.hosts[name] {
			yield(&x.all[i], name)
		}
		_, above, ok := strings.Cut(name, ".")
		if !ok {
			return
		}
		name = above
	}
}

var errName = errors.New("a name")

// address reads an address. For names, which do not end with a digit and have no colon, it costs
// nothing.
func address(host string) (netip.Addr, error) {
	if host == "" || (host[len(host)-1] < '0' || host[len(host)-1] > '9') && !strings.Contains(host, ":") {
		return netip.Addr{}, errName
	}
	return netip.ParseAddr(host)
}
