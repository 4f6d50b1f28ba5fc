package lan

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Holder is who listens at a port.
type Holder struct {
	Addr netip.AddrPort
	// Program is the name of the process, or of the user whose process it is if this program may not
	// look; "" if neither is known.
	Program string
	Process int // 0 if it is not known
}

// Blocks reports whether nobody else can listen at an address.
func (h Holder) Blocks(a netip.Addr) bool {
	at := h.Addr.Addr().Unmap()
	return at.IsUnspecified() || at == a.Unmap()
}

// resolved and dnsmasq are the programs that can be moved aside.
const (
	resolved = "systemd-resolved"
	dnsmasq  = "dnsmasq"
)

// names are what processes and users of name servers are called.
var names = map[string]string{"systemd-resolve": resolved, "unbound": "unbound", "bind": "named", "pihole-FTL": "Pi-hole", "pihole": "Pi-hole", "AdGuardHome": "AdGuard Home"}

// Yields reports whether [Machine.Free] can move it aside.
func (h Holder) Yields() bool { return h.Program == resolved || h.Program == dnsmasq }

// Holders returns who listens at a port of this machine, by UDP or TCP, but for this process; none where
// the system does not tell.
func (m Machine) Holders(port uint16) (all []Holder) {
	sockets := map[string]Holder{} // by inode
	for _, table := range []string{"udp", "udp6", "tcp", "tcp6"} {
		text, err := os.ReadFile(m.path("proc/net/" + table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if inode, h, ok := holderOf(line, strings.HasPrefix(table, "tcp")); ok && h.Addr.Port() == port {
				sockets[inode] = h
			}
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	m.findProcesses(sockets)
	for _, h := range sockets {
		if a := h.Addr.Addr().Unmap(); h.Program == "" && a.IsLoopback() && a.As16()[15] >= 53 && a.As16()[15] <= 54 {
			h.Program = resolved // nothing else listens at 127.0.0.53
		}
		if h.Process != os.Getpid() && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b Holder) int { return a.Addr.Compare(b.Addr) })
	return all
}

// holderOf reads a line of the kernel's table of sockets.
func holderOf(line string, tcp bool) (inode string, h Holder, ok bool) {
	const listens = "0A"
	f := strings.Fields(line)
	if len(f) < 10 || tcp && f[3] != listens || f[9] == "0" {
		return "", h, false
	}
	addr, port, found := strings.Cut(f[1], ":")
	b, err := hex.DecodeString(addr)
	n, failed := strconv.ParseUint(port, 16, 16)
	if !found || err != nil || failed != nil || len(b)%4 != 0 {
		return "", h, false
	}
	inOrder(b)
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return "", h, false
	}
	h.Addr = netip.AddrPortFrom(a.Unmap(), uint16(n))
	if u, err := user.LookupId(f[7]); err == nil && f[7] != "0" {
		h.Program = called(u.Username)
	}
	return f[9], h, true
}

func called(name string) string {
	if known, ok := names[name]; ok {
		return known
	}
	return name
}

// findProcesses adds the processes that have sockets, as far as this user may see them.
func (m Machine) findProcesses(sockets map[string]Holder) {
	links, _ := filepath.Glob(m.path("proc/[0-9]*/fd/*")) // the pattern is good
	for _, link := range links {
		to, err := os.Readlink(link)
		inode, is := strings.CutPrefix(to, "socket:[")
		if err != nil || !is {
			continue
		}
		inode = strings.TrimSuffix(inode, "]")
		h, ours := sockets[inode]
		if !ours || h.Process != 0 {
			continue
		}
		process := filepath.Dir(filepath.Dir(link))
		h.Process, _ = strconv.Atoi(filepath.Base(process)) // it is a number
		if name, err := os.ReadFile(filepath.Join(process, "comm")); err == nil {
			h.Program = called(strings.TrimSpace(string(name)))
		}
		sockets[inode] = h
	}
}

// String says who it is and where.
func (h Holder) String() string {
	if h.Program == "" {
		return h.Addr.String()
	}
	return fmt.Sprintf("%s at %s", h.Program, h.Addr)
}
