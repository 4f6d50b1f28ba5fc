package policy

import (
	"fmt"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// Extended DNS Errors of refusals, RFC 8914 sections 4.17 and 4.18.
const (
	errorCensored = 16
	errorFiltered = 17
)

func compileDNS(s *DNS) (n filter.Names, err error) {
	n = filter.Names{Answer: s.Answer, OwnDNS: s.OwnDNS}
	switch s.Error {
	case "", "blocked":
	case "censored":
		n.Error = errorCensored
	case "filtered":
		n.Error = errorFiltered
	default:
		return n, setting.At("error", fmt.Errorf("%q is not one of blocked, censored and filtered", s.Error))
	}
	for i, d := range s.Drop {
		switch d {
		case "h3":
			n.NoHTTP3 = true
		case "ech":
			n.NoECH = true
		default:
			return n, setting.At(fmt.Sprintf("drop[%d]", i), fmt.Errorf("%q is neither h3 nor ech", d))
		}
	}
	return n, nil
}
