package filter

import "fmt"

// Names has the requirements of a policy for name servers.
type Names struct {
	// Answer is how to answer a refused name.
	Answer Answer
	// Error is the Extended DNS Error (RFC 8914) of a refusal: Blocked (15),
	// Censored (16) or Filtered (17); 0 is Blocked.
	Error uint16
	// NoHTTP3 and NoECH remove the ALPN h3 and encrypted client hellos from HTTPS and SVCB
	// records, so that browsers use protocols that can be inspected.
	NoHTTP3, NoECH bool
	// OwnDNS lets browsers and devices use their own encrypted DNS: the names by which they ask
	// for permission are answered like any other.
	OwnDNS bool
}

// An Answer is how a name server refuses a name.
type Answer uint8

const (
	Usual    Answer = iota // as in the settings of the name server
	NXDomain               // the name does not exist
	NoData                 // the name has no records of this type
	Zero                   // 0.0.0.0 and ::
	Sinkhole               // the address of a server whose page gives the reason
	Refused
)

var answers = [...]string{"", "nxdomain", "nodata", "zero", "sinkhole", "refused"}

func (a Answer) String() string { return answers[int(a)%len(answers)] }

// MarshalText writes an answer in the form of the settings.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an answer in the form of the settings.
func (a *Answer) UnmarshalText(text []byte) error {
	for i, s := range answers[1:] {
		if s == string(text) {
			*a = Answer(i + 1)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of nxdomain, nodata, zero, sinkhole and refused", text)
}
