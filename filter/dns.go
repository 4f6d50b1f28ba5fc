package filter

import "fmt"

// Names is what a policy says to name servers.
type Names struct {
	// Answer is how a refused name is answered.
	Answer Answer
	// Error is the Extended DNS Error (RFC 8914) of a refusal: Blocked (15),
	// Censored (16) or Filtered (17); 0 is Blocked.
	Error uint16
	// NoHTTP3 and NoECH take the alpn h3 and encrypted client hellos out of
	// HTTPS and SVCB records, so that browsers come by ways that can be seen.
	NoHTTP3, NoECH bool
	// OwnDNS lets browsers and devices use encrypted DNS of their own: the
	// names by which they ask for leave are answered like any other.
	OwnDNS bool
}

// An Answer is how a name server refuses a name.
type Answer uint8

const (
	Usual    Answer = iota // as the settings of the name server say
	NXDomain               // there is no such name
	NoData                 // there is nothing of this type
	Zero                   // 0.0.0.0 and ::
	Sinkhole               // the address of a server with a page that says why
	Refused
)

var answers = [...]string{"", "nxdomain", "nodata", "zero", "sinkhole", "refused"}

func (a Answer) String() string { return answers[int(a)%len(answers)] }

// MarshalText writes an answer as the settings name it.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an answer as the settings name it.
func (a *Answer) UnmarshalText(text []byte) error {
	for i, s := range answers[1:] {
		if s == string(text) {
			*a = Answer(i + 1)
			return nil
		}
	}
	return fmt.Errorf("%q is none of nxdomain, nodata, zero, sinkhole and refused", text)
}
