package identity

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// What a message about a neighbour has (linux/neighbour.h).
const (
	neighbourHead = 12
	neighbourAddr = 1 // NDA_DST
	neighbourMAC  = 2 // NDA_LLADDR

	// Reachable, stale, delay, probe, permanent: in these states the address is known.
	neighbourKnown = 0x02 | 0x04 | 0x08 | 0x10 | 0x80
)

// neighbours returns the hardware addresses of the machines that share a link with this one, as
// ARP and neighbour discovery have found them.
func neighbours() (map[netip.Addr]string, error) {
	data, err := syscall.NetlinkRIB(syscall.RTM_GETNEIGH, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("ask the system for its neighbours: %w", err)
	}
	all, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil, fmt.Errorf("read the neighbours of the system: %w", err)
	}
	near := map[netip.Addr]string{}
	for _, m := range all {
		if m.Header.Type != syscall.RTM_NEWNEIGH || len(m.Data) < neighbourHead || len(near) >= maxDevices {
			continue
		}
		if state := binary.NativeEndian.Uint16(m.Data[8:]); state&neighbourKnown == 0 {
			continue
		}
		if addr, mac := neighbourOf(m.Data[neighbourHead:]); addr.IsValid() && mac != "" && !addr.IsLinkLocalUnicast() { // a link-local address is another one on each link
			near[addr] = mac
		}
	}
	return near, nil
}

// neighbourOf reads the attributes of a neighbour.
func neighbourOf(b []byte) (addr netip.Addr, mac string) {
	for len(b) >= 4 {
		size, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if size < 4 || size > len(b) {
			break
		}
		switch value := b[4:size]; {
		case kind == neighbourAddr:
			addr, _ = netip.AddrFromSlice(value) // invalid if it is none
		case kind == neighbourMAC && len(value) == 6:
			mac = net.HardwareAddr(value).String()
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return addr.Unmap(), mac
}
