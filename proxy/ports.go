package proxy

import (
	"fmt"
	"strconv"
	"strings"

	"shuultuur/lib/setting"
)

// ports is a set of TCP ports.
type ports [1 << 16 / 64]uint64

// defaultSafePorts are squid's, without those of Redis (6379) and memcached (11211), which
// execute commands in the body of a request.
var defaultSafePorts = [...]string{"80", "21", "443", "70", "210", "280", "488", "591", "777", "1025-6378", "6380-11210", "11212-65535"}

// newPorts parses a setting: ports, ranges and "any".
func newPorts(key string, list setting.OneOrMore[string], def ...string) (*ports, error) {
	p := new(ports)
	for i, s := range list.Or(def...) {
		if s == "any" {
			s = "1-65535"
		}
		from, to, ranged := strings.Cut(s, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || a == 0 || a > b {
			return nil, setting.At(key+"["+strconv.Itoa(i)+"]", fmt.Errorf("%q is neither a port, a range of ports such as 8000-8100, nor \"any\"", s))
		}
		for n := a; n <= b; n++ {
			p[n/64] |= 1 << (n % 64)
		}
	}
	return p, nil
}

func (p *ports) has(port uint16) bool { return p[port/64]>>(port%64)&1 != 0 }
