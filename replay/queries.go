package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"shuultuur/dns"
	"shuultuur/filter"
)

// setQuestion makes e a query for a name.
func (e *Entry) setQuestion(name, qtype string) error {
	e.Method = Lookup
	e.Question, _ = dns.Type(qtype) // 0 for types without a name here
	return e.setName(name, 0)
}

// parseAdGuardHome parses a line of AdGuard Home's querylog.json.
func parseAdGuardHome(line string) (Entry, error) {
	var q struct {
		T       time.Time
		Name    string `json:"QH"`
		Type    string `json:"QT"`
		IP      string
		Elapsed time.Duration
		Result  struct {
			IsFiltered bool
			Reason     int
		}
	}
	if err := json.Unmarshal([]byte(line), &q); err != nil {
		return Entry{}, fmt.Errorf("not a line of AdGuard Home's query log: %w", err)
	}
	if q.Name == "" {
		return Entry{}, errors.New("not a query of AdGuard Home: it has no QH")
	}
	// AdGuard Home also calls names of search engines filtered, which it answers with other
	// names.
	const safeSearch = 7
	e := Entry{Start: q.T.UTC(), Duration: max(0, q.Elapsed), Client: address(q.IP), Refused: q.Result.IsFiltered && q.Result.Reason != safeSearch, Recorded: &RecordedVerdict{}}
	if e.Refused {
		e.Recorded.Action = filter.Block
	} else {
		e.Status = 200
	}
	return e, e.setQuestion(q.Name, q.Type)
}

// dnsmasqQuery matches a query in the log of dnsmasq, and so of Pi-hole. The result is in
// later lines, which do not name the client.
var dnsmasqQuery = regexp.MustCompile(`^(\w{3} [ \d]\d \d\d:\d\d:\d\d) (?:\S+ )?dnsmasq\[\d+\]: (?:\d+ \S+ )?(?:query\[([^\]]+)\] (\S+) from (\S+)$)?`)

// parseDnsmasq parses a line of pihole.log, or of dnsmasq with log-queries. The log has no
// year, so the current one is assumed.
func parseDnsmasq(line string, zone *time.Location, now time.Time) (Entry, error) {
	m := dnsmasqQuery.FindStringSubmatch(line)
	if m == nil {
		return Entry{}, errors.New("not a line of dnsmasq or Pi-hole")
	}
	if m[3] == "" {
		return Entry{}, errNoRequest
	}
	at, err := time.ParseInLocation("2006 Jan _2 15:04:05", strconv.Itoa(now.Year())+" "+m[1], zone)
	if err != nil {
		return Entry{}, fmt.Errorf("reading the time of a query: %w", err)
	}
	if at.After(now.Add(24 * time.Hour)) {
		at = at.AddDate(-1, 0, 0)
	}
	e := Entry{Start: at.UTC(), Client: address(m[4])}
	return e, e.setQuestion(m[3], m[2])
}

// unboundQuery matches a query in the log of Unbound with log-queries.
var unboundQuery = regexp.MustCompile(`unbound\[[\d:]+\] (?:info|debug|notice|warning|error): ?(?:(\S+) (\S+)\. (\w+) (?:IN|CH|HS)\b)?`)

// parseUnbound parses a line of Unbound's log.
func parseUnbound(line string) (Entry, error) {
	m := unboundQuery.FindStringSubmatch(line)
	if m == nil {
		return Entry{}, errors.New("not a line of Unbound")
	}
	client, err := netip.ParseAddr(m[1])
	if err != nil {
		return Entry{}, errNoRequest
	}
	e := Entry{Client: client.Unmap().WithZone("")}
	if stamp, _, ok := strings.Cut(strings.TrimPrefix(line, "["), "]"); ok && strings.HasPrefix(line, "[") {
		if e.Start, err = unixMillis(stamp); err != nil {
			return Entry{}, err
		}
	}
	return e, e.setQuestion(m[2], m[3])
}
