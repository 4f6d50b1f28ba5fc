package forward

import (
	"errors"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemFiles are those that configured reads.
var systemFiles []string

// configured returns the name servers of the network adapters that are up, in their order.
func configured() (servers []string) {
	const flags = windows.GAA_FLAG_SKIP_UNICAST | windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST
	size := uint32(16 << 10)
	var first *windows.IpAdapterAddresses
	for range 3 { // adapters may come meanwhile
		buf := make([]byte, size)
		first = (*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0]))
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, flags, 0, first, &size)
		if err == nil {
			break
		}
		first = nil
		if !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) {
			return nil
		}
	}
	for a := first; a != nil; a = a.Next {
		if a.OperStatus != windows.IfOperStatusUp {
			continue
		}
		for d := a.FirstDnsServerAddress; d != nil; d = d.Next {
			// An address of the site (fec0::) stands for none.
			ip := d.Address.IP()
			if len(ip) == 16 && ip[0] == 0xfe && ip[1]&0xc0 == 0xc0 {
				continue
			}
			if s := ip.String(); ip != nil && !slices.Contains(servers, s) {
				servers = append(servers, s)
			}
		}
	}
	return servers
}
