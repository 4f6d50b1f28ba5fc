package session

import (
	"cmp"
	"net/netip"
	"slices"
)

// maxOwn bounds the addresses of a device that are looked at for its session.
const maxOwn = 32

// Devices says which devices have which addresses, by their hardware addresses. Leases and
// neighbours are compared each with their own kind: a repeater shows its own hardware address for
// all devices behind it, and leases have those of the devices. It is immutable.
type Devices struct {
	leases, near map[netip.Addr]string
	// home has the one IPv4 address of a device that lease and neighbour agree on, and others
	// its IPv6 addresses.
	home   map[string]netip.Addr
	others map[string][]netip.Addr
}

// NewDevices returns what leases and neighbours say of addresses. The caller does not change
// them any more.
func NewDevices(leases, near map[netip.Addr]string) *Devices {
	d := &Devices{leases: leases, near: near, home: map[string]netip.Addr{}, others: map[string][]netip.Addr{}}
	for a, mac := range near {
		switch {
		case !a.Is4():
			if len(d.others[mac]) < maxOwn {
				d.others[mac] = append(d.others[mac], a)
			}
		case leases[a] != mac:
			d.home[mac] = netip.Addr{} // a router, a repeater, or an address that was chosen by hand
		default:
			if _, another := d.home[mac]; another {
				a = netip.Addr{} // several machines, or several people
			}
			d.home[mac] = a
		}
	}
	return d
}

// See tells the table which devices have which addresses now. A session ends when another device
// has its address.
func (t *Table) See(d *Devices) error {
	var over []EndRequest
	t.giving.Lock()
	t.devices.Store(d)
	for _, n := range t.each(func(n *Session) bool { return n.Bits == 0 }) {
		lease, near := d.leases[n.Addr], d.near[n.Addr]
		if other(n.Lease, lease) || other(n.Near, near) {
			over = append(over, EndRequest{Addr: n.Addr, only: n})
			t.log.Info("a session ends: another device has its address", "client", n.Addr, "user", n.User, "device", cmp.Or(lease, near))
		} else if n.Lease == "" && lease != "" || n.Near == "" && near != "" {
			known := *n
			known.sees(d)
			t.put(&known)
		}
	}
	t.giving.Unlock()
	if len(over) == 0 {
		return nil
	}
	_, err := t.End(over...)
	return err
}

// other reports whether two known devices differ.
func other(was, is string) bool { return was != "" && is != "" && was != is }

// sees notes the device of the session, as far as it is not known.
func (n *Session) sees(d *Devices) {
	if d == nil || n.Bits > 0 {
		return
	}
	if n.Lease == "" {
		n.Lease = d.leases[n.Addr]
	}
	if n.Near == "" {
		n.Near = d.near[n.Addr]
	}
}

// OfDevice returns the session that somebody has begun on the portal by another address of the
// device at a: people with IPv4 and IPv6 sign in once. It is nil if that is not certain.
func (t *Table) OfDevice(a netip.Addr) (found *Session) {
	if t == nil || t.n.Load() == 0 {
		return nil
	}
	d := t.devices.Load()
	if d == nil {
		return nil
	}
	mac := d.near[a]
	home := d.home[mac]
	if mac == "" || !home.IsValid() || a.Is4() && a != home {
		return nil
	}
	for i := -1; i < len(d.others[mac]); i++ {
		at := home
		if i >= 0 {
			at = d.others[mac][i]
		}
		n := t.Lookup(at)
		if at == a || n == nil || n.By != "portal" || n.Near != mac {
			continue
		}
		if found != nil && (found.User != n.User || !slices.Equal(found.Groups, n.Groups)) {
			return nil
		}
		found = n
	}
	return found
}
