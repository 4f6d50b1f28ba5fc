package entry

import (
	"strconv"
	"strings"

	miekg "github.com/miekg/dns"
)

// TTL reads a TTL, in seconds or like 1h30m. More than 2^31-1 is 0 (RFC 2181 section 8).
func TTL(t Token) (uint32, bool) {
	if t.Quoted || t.Text == "" || t.Text[0] < '0' || t.Text[0] > '9' {
		return 0, false
	}
	sum, n, digits := uint64(0), uint64(0), false
	for _, c := range []byte(t.Text) {
		unit := uint64(0)
		switch c {
		case 's', 'S':
			unit = 1
		case 'm', 'M':
			unit = 60
		case 'h', 'H':
			unit = 60 * 60
		case 'd', 'D':
			unit = 24 * 60 * 60
		case 'w', 'W':
			unit = 7 * 24 * 60 * 60
		default:
			if c < '0' || c > '9' {
				return 0, false
			}
			if n, digits = n*10+uint64(c-'0'), true; n > 1<<32-1 {
				return 0, false
			}
			continue
		}
		if !digits {
			return 0, false
		}
		sum, n, digits = sum+n*unit, 0, false
		if sum > 1<<32-1 {
			return 0, false
		}
	}
	if sum += n; sum > 1<<32-1 {
		return 0, false
	}
	if sum >= 1<<31 {
		sum = 0
	}
	return uint32(sum), true
}

// moreTypes are types that the parser does not know.
var moreTypes = map[string]uint16{"WKS": WKS, "NSAP": NSAP, "NSAP-PTR": 23, "A6": A6, "SINK": SINK, "DSYNC": DSYNC, "DOA": DOA, "WALLET": WALLET, "CLA": CLA}

// Types that the codec does not know.
const (
	WKS    = 11
	NSAP   = 22
	A6     = 38
	SINK   = 40
	DSYNC  = 66
	DOA    = 259
	WALLET = 262
	CLA    = 263
)

// Type returns the number of a type that is written in capitals, 0 if there is none.
func Type(up string) uint16 {
	if t, ok := miekg.StringToType[up]; ok {
		return t
	}
	if t, ok := moreTypes[up]; ok {
		return t
	}
	if s, ok := strings.CutPrefix(up, "TYPE"); ok {
		if n, err := strconv.ParseUint(s, 10, 16); err == nil {
			return uint16(n)
		}
	}
	return 0
}
