// Package lan says where a machine is in its network: its addresses there, its router, the name servers
// that it asks, and who has a port. It moves the name service of the system aside, which has port 53 on
// many machines.
package lan

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Machine is the machine whose files are below a folder.
type Machine struct {
	// Root is the folder; "" for "/".
	Root string
	// Run runs a command of the system; nil runs it.
	Run func(ctx context.Context, name string, args ...string) error
}

// An Address is one that other machines of the network reach.
type Address struct {
	Card string
	Addr netip.Addr
}

// virtual are the beginnings of names of network cards that lead to containers, virtual machines and
// tunnels of this machine.
var virtual = []string{"docker", "br-", "veth", "virbr", "vnet", "lxc", "lxd", "cni", "flannel", "cali", "podman", "tun", "tap", "wg", "zt", "tailscale"}

// Addresses returns the private IPv4 addresses of this machine, first those of the card that leads to
// the router.
func (m Machine) Addresses() (all []Address) {
	cards, err := net.Interfaces()
	if err != nil {
		return nil
	}
	out, _ := m.Router()
	for _, c := range cards {
		if c.Flags&net.FlagUp == 0 || c.Flags&net.FlagLoopback != 0 || slices.ContainsFunc(virtual, func(p string) bool { return strings.HasPrefix(c.Name, p) }) {
			continue
		}
		addrs, err := c.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(n.IP); ok && addr.Unmap().Is4() && addr.Unmap().IsPrivate() {
					all = append(all, Address{c.Name, addr.Unmap()})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Address) int {
		return cmp.Compare(btoi(b.Card == out), btoi(a.Card == out))
	})
	return all
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m Machine) path(name string) string { return filepath.Join(cmp.Or(m.Root, "/"), name) }

// Router returns the card and the address of the IPv4 router; the zero Addr if it is not known.
func (m Machine) Router() (card string, router netip.Addr) {
	text, err := os.ReadFile(m.path("proc/net/route"))
	if err != nil {
		return "", netip.Addr{}
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		if b, err := hex.DecodeString(f[2]); err == nil && len(b) == 4 {
			inOrder(b)
			router, _ = netip.AddrFromSlice(b) // of four bytes
			return f[0], router
		}
	}
	return "", netip.Addr{}
}

// inOrder puts the bytes of an address in their order: the kernel prints them as numbers of this machine.
func inOrder(b []byte) {
	for i := 0; i+4 <= len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
}

// NameServers returns the servers that this machine asks for names, those that systemd-resolved asks if
// it stands in between. Servers on this machine are none of them.
func (m Machine) NameServers() (all []netip.Addr) {
	for _, file := range []string{"run/systemd/resolve/resolv.conf", "etc/resolv.conf"} {
		text, err := os.ReadFile(m.path(file))
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan() && len(all) < 4; {
			f := strings.Fields(s.Text())
			if len(f) < 2 || f[0] != "nameserver" {
				continue
			}
			if a, err := netip.ParseAddr(f[1]); err == nil && !a.IsLoopback() && a.Zone() == "" && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// run runs a command of the system.
func (m Machine) run(ctx context.Context, name string, args ...string) error {
	if m.Run != nil {
		return m.Run(ctx, name, args...)
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil && len(bytes.TrimSpace(out)) > 0 {
		return errors.Join(err, errors.New(string(bytes.TrimSpace(out[:min(len(out), 1000)]))))
	}
	return err
}
