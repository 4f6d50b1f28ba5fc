package zone

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone/rdata"
)

// Write writes a zone as a zone file, the SOA record first. Data that a zone file cannot
// express (choices, ANAME) becomes a comment.
func Write(w io.Writer, z *Zone) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "$ORIGIN %s\n", z.Origin)
	records := slices.Clone(z.Records)
	slices.SortStableFunc(records, func(x, y miekg.RR) int {
		first := func(rr miekg.RR) int {
			if rr.Header().Rrtype == miekg.TypeSOA {
				return 0
			}
			return 1
		}
		return first(x) - first(y)
	})
	for _, rr := range records {
		fmt.Fprintln(b, rr)
	}
	for _, c := range z.Choices {
		fmt.Fprintf(b, "; of the %s records of %s not all are answered, or in another order\n", dns.TypeName(c.Type), c.Name)
	}
	for _, a := range z.Aliases {
		fmt.Fprintf(b, "; %s ANAME %s\n", a.Name, a.Target)
	}
	return b.Flush()
}

// RecordText returns a record as a line of a zone file that Read accepts, whatever another server
// has taken for its data: where Read is strict, the data is in bytes (RFC 3597).
func RecordText(rr miekg.RR) string {
	h := rr.Header()
	if s := rr.String(); rdata.Plain(h.Rrtype, strings.TrimPrefix(s, h.String())) {
		return s
	}
	x := new(miekg.RFC3597)
	if err := x.ToRFC3597(rr); err != nil {
		return rr.String()
	}
	return fmt.Sprintf("%s %d IN TYPE%d \\# %d %s", h.Name, h.Ttl, h.Rrtype, len(x.Rdata)/2, x.Rdata)
}
