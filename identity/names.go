package identity

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"shuultuur/lib/setting"
)

// NamesConfig sets where to find the names of devices, which are shown beside
// addresses. They decide nothing, because a device chooses its own name.
type NamesConfig struct {
	Leases []setting.Source `yaml:"leases"` // files of dnsmasq, ISC dhcpd or Kea (CSV)
	Hosts  []setting.Source `yaml:"hosts"`  // files like /etc/hosts; default /etc/hosts
}

// Names resolves the names of devices. They are looked up when a page shows
// them, not when an event is recorded. So browsing pays nothing, and names
// known today apply to yesterday's events. Changed files are read again, at
// most every two seconds. Names is safe for concurrent use.
type Names struct {
	id    *Identity
	files []string // hosts files first, because leases are newer

	mu     sync.Mutex
	looked time.Time
	stamps []string // of files; guarded by mu, like the fields below
	known  map[netip.Addr]string
	errs   []error
	asked  map[netip.Addr]dnsAnswer
}

// A dnsAnswer is the answer of the DNS for an address.
type dnsAnswer struct {
	name  string // "" if it has none
	until time.Time
}

// Limits on the contents of lease files and DNS answers.
const (
	maxNamesFile = 16 << 20
	maxNames     = 100_000
	maxShown     = 63 // shown bytes of a name
	maxNameFiles = 16
	maxAsked     = 10_000
	askAtOnce    = 8
	askTime      = time.Second // for all names of one page
	askAgain     = 10 * time.Minute
	lookEvery    = 2 * time.Second
)

// NewNames returns the names for cfg. id provides users by address.
func NewNames(cfg NamesConfig, id *Identity) (*Names, error) {
	if len(cfg.Hosts) == 0 {
		cfg.Hosts = []setting.Source{"/etc/hosts"}
	}
	n := &Names{id: id, asked: map[netip.Addr]dnsAnswer{}}
	for _, f := range slices.Concat(cfg.Hosts, cfg.Leases) {
		n.files = append(n.files, string(f))
	}
	for key, files := range map[string][]setting.Source{"leases": cfg.Leases, "hosts": cfg.Hosts} {
		if i := slices.Index(files, ""); i >= 0 || len(files) > maxNameFiles {
			return nil, setting.At(key, fmt.Errorf("give the paths of 1 to %d files", maxNameFiles))
		}
	}
	return n, nil
}

// Of returns the names of those addresses that have one: the name of the user at
// the address, or else that of a lease, a hosts file or the DNS. ask may be nil;
// it looks an address up in the DNS and returns "" if it has no name. It is
// called for private addresses only, and its answers are kept for ten minutes.
// Of waits for at most a second.
func (n *Names) Of(ctx context.Context, addrs []netip.Addr, ask func(context.Context, netip.Addr) string) map[netip.Addr]string {
	names := map[netip.Addr]string{}
	var unknown []netip.Addr
	now := time.Now()
	n.mu.Lock()
	n.rereadChanged(now)
	for _, a := range addrs {
		a = a.Unmap()
		name := n.id.userAt(a)
		if name == "" {
			name = n.known[a]
		}
		if p, ok := n.asked[a]; name == "" && ok && now.Before(p.until) {
			name = p.name
		} else if name == "" && ask != nil && (a.IsPrivate() || a.IsLinkLocalUnicast()) && !slices.Contains(unknown, a) {
			unknown = append(unknown, a)
		}
		if name != "" {
			names[a] = name
		}
	}
	n.mu.Unlock()
	if len(unknown) > 0 {
		n.lookUp(ctx, unknown, ask, names)
	}
	return names
}

// lookUp looks addresses up in the DNS, adds the answers to names, and keeps
// them.
func (n *Names) lookUp(ctx context.Context, addrs []netip.Addr, ask func(context.Context, netip.Addr) string, names map[netip.Addr]string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var wg sync.WaitGroup
	turns := make(chan struct{}, askAtOnce)
	found := make([]string, len(addrs))
	for i, a := range addrs {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if ctx.Err() == nil {
				found[i] = cleanName(ask(ctx, a))
			}
		})
	}
	wg.Wait()
	until := time.Now().Add(askAgain)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked)+len(addrs) > maxAsked {
		clear(n.asked)
	}
	for i, a := range addrs {
		n.asked[a] = dnsAnswer{found[i], until}
		if found[i] != "" {
			names[a] = found[i]
		}
	}
}

// userAt returns the user that the settings have for an address, or "".
func (id *Identity) userAt(a netip.Addr) string {
	if id.nets != nil && a.IsValid() {
		if p, ok := id.nets.Lookup(a); ok {
			return p.user
		}
	}
	return ""
}

// Problems returns errors of files that cannot be read.
func (n *Names) Problems() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rereadChanged(time.Now())
	for _, err := range n.errs {
		all = append(all, "names of clients: "+err.Error())
	}
	return all
}

// rereadChanged reads changed files again. The caller holds mu.
func (n *Names) rereadChanged(now time.Time) {
	if now.Sub(n.looked) < lookEvery && !n.looked.IsZero() {
		return
	}
	n.looked = now
	stamps := make([]string, len(n.files))
	for i, f := range n.files {
		if info, err := os.Stat(f); err == nil {
			stamps[i] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		} else {
			stamps[i] = err.Error()
		}
	}
	if slices.Equal(stamps, n.stamps) {
		return
	}
	n.stamps, n.known, n.errs = stamps, map[netip.Addr]string{}, nil
	for _, f := range n.files {
		if err := n.read(f); err != nil {
			n.errs = append(n.errs, err)
		}
	}
}

// readNamesFile reads a file of leases or hosts.
func readNamesFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNamesFile+1))
	if err == nil && len(data) > maxNamesFile {
		err = fmt.Errorf("%s is larger than %d MiB", file, maxNamesFile>>20)
	}
	return data, err
}

func (n *Names) read(file string) error {
	data, err := readNamesFile(file)
	if err != nil {
		return err
	}
	ReadNames(data, func(d Device) {
		name := cleanName(d.Name)
		if _, there := n.known[d.Addr]; name != "" && (there || len(n.known) < maxNames) {
			n.known[d.Addr] = name
		}
	})
	return nil
}

// A Device is one line of a lease or hosts file. Its texts are unchecked:
// escape them before you show them.
type Device struct {
	Addr netip.Addr
	MAC  string // lower case, with colons; "" if unknown
	Name string // "" when it has none
}

// ReadNames calls found for each device in a file, in order; later entries are
// newer. It reads leases of dnsmasq, ISC dhcpd and Kea, and lines of addresses
// and names. It skips other lines.
func ReadNames(data []byte, found func(Device)) {
	switch first := bytes.TrimSpace(data[:min(len(data), 64<<10)]); {
	case bytes.HasPrefix(first, []byte("address,")):
		keaLeases(data, found)
	case bytes.HasPrefix(first, []byte("lease ")) || bytes.Contains(first, []byte("\nlease ")) && bytes.Contains(first, []byte("{")):
		iscLeases(data, found)
	default:
		linesOfNames(data, found)
	}
}

// linesOfNames reads leases of dnsmasq (time, MAC, address, name, client
// identifier) and hosts files (address, names).
func linesOfNames(data []byte, found func(Device)) {
	eachLine(data, func(line string) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			return
		}
		if a, err := netip.ParseAddr(f[0]); err == nil {
			if !a.IsUnspecified() && !a.IsLoopback() {
				found(Device{Addr: plain(a), Name: f[1]})
			}
			return
		}
		if len(f) < 4 {
			return
		}
		a, err := netip.ParseAddr(f[2])
		if err != nil {
			return
		}
		d := Device{Addr: plain(a), Name: f[3]}
		if strings.Count(f[1], ":") == 5 {
			d.MAC = strings.ToLower(f[1])
		}
		if d.Name == "*" {
			d.Name = ""
		}
		found(d)
	})
}

// iscLeases reads dhcpd.leases(5). The last block of an address applies.
func iscLeases(data []byte, found func(Device)) {
	var d Device
	eachLine(data, func(line string) {
		f := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ";"))
		switch {
		case len(f) >= 3 && f[0] == "lease" && f[2] == "{":
			a, _ := netip.ParseAddr(f[1])
			d = Device{Addr: plain(a)}
		case len(f) == 3 && f[0] == "hardware":
			d.MAC = strings.ToLower(f[2])
		case len(f) >= 2 && f[0] == "client-hostname":
			d.Name = strings.Trim(strings.Join(f[1:], " "), `"`)
		case len(f) == 1 && f[0] == "}":
			if d.Addr.IsValid() {
				found(d)
			}
			d = Device{}
		}
	})
}

// keaLeases reads Kea's lease files: CSV whose first line names the columns.
func keaLeases(data []byte, found func(Device)) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	columns := map[string]int{}
	for first := true; ; first = false {
		f, err := r.Read()
		if errors.Is(err, csv.ErrQuote) || errors.Is(err, csv.ErrBareQuote) || errors.Is(err, csv.ErrFieldCount) {
			continue
		}
		if err != nil {
			return
		}
		if first {
			for i, c := range f {
				columns[strings.Clone(c)] = i
			}
			continue
		}
		get := func(c string) string {
			if i, ok := columns[c]; ok && i < len(f) {
				return strings.Clone(f[i])
			}
			return ""
		}
		if a, err := netip.ParseAddr(get("address")); err == nil {
			found(Device{Addr: plain(a), MAC: strings.ToLower(get("hwaddr")), Name: strings.TrimSuffix(get("hostname"), ".")})
		}
	}
}

// eachLine calls f for each line of data, except overlong ones.
func eachLine(data []byte, f func(string)) {
	const longest = 4096
	for s := bufio.NewReader(bytes.NewReader(data)); ; {
		line, more, err := s.ReadLine()
		for more && err == nil { // skips a line that is longer than the buffer
			line = nil
			_, more, err = s.ReadLine()
		}
		if err != nil {
			return
		}
		if len(line) <= longest {
			f(string(line))
		}
	}
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// cleanName makes a name safe to show: at most as long as a DNS label, and
// without control characters.
func cleanName(s string) string {
	s = strings.TrimSuffix(s, ".")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown-len("…")], "") + "…"
	}
	return s
}
