package whatif

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
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
var dnsmasqQuery = regexp.MustCompile(`^(\w{3} [ \d]\d \d\d:\d\d:\d\d|[\d-]{10}T\S+) (?:\S+ )?dnsmasq\[\d+\]: (?:\d+ \S+ )?(?:query\[([^\]]+)\] (\S+) from (\S+)$)?`)

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
	at, err := time.Parse(time.RFC3339, m[1]) // as system logs write it today
	if err != nil {
		at, err = time.ParseInLocation("2006 Jan _2 15:04:05", strconv.Itoa(now.Year())+" "+m[1], zone)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("reading the time of a query: %w", err)
	}
	if at.After(now.Add(24 * time.Hour)) {
		at = at.AddDate(-1, 0, 0)
	}
	e := Entry{Start: at.UTC(), Client: address(m[4])}
	return e, e.setQuestion(m[3], m[2])
}

// unboundQuery matches a query in the log of Unbound with log-queries, also by the system log
// and with log-tag-queryreply.
var unboundQuery = regexp.MustCompile(`unbound(?:(?:\[\d+\])?: )?\[[\d:]+\] (?:info|debug|notice|warning|error|query|reply): ?(?:(\S+) (\S+)\. (\w+) (?:IN|CH|HS)\b(.*))?`)

// unboundParser returns a parser of the lines of one log of Unbound. With log-queries and
// log-replies a query has two lines, so replies are no requests once the log has had a query.
// Unbound may start again with other settings in the same file.
func unboundParser() func(line string) (Entry, error) {
	queries := false
	return func(line string) (Entry, error) {
		e, reply, err := parseUnbound(line)
		switch {
		case strings.Contains(line, "info: start of service"):
			queries = false
		case err == nil && reply && queries:
			return Entry{}, errNoRequest
		case err == nil && !reply:
			queries = true
		}
		return e, err
	}
}

// parseUnbound parses a line of Unbound's log. reply reports that the line has the result.
func parseUnbound(line string) (e Entry, reply bool, err error) {
	m := unboundQuery.FindStringSubmatch(line)
	if m == nil {
		return Entry{}, false, errors.New("not a line of Unbound")
	}
	client, err := netip.ParseAddr(m[1])
	if err != nil {
		return Entry{}, false, errNoRequest
	}
	e = Entry{Client: client.Unmap().WithZone("")}
	if stamp, _, ok := strings.Cut(strings.TrimPrefix(line, "["), "]"); ok && strings.HasPrefix(line, "[") {
		if e.Start, err = unixMillis(stamp); err != nil {
			return Entry{}, false, err
		}
	}
	return e, strings.TrimSpace(m[4]) != "", e.setQuestion(m[2], m[3])
}

// queryLogs has the logs of name servers that have a query with its result in a line. A line
// without a name is a headline or a remark.
var queryLogs = map[string]*regexp.Regexp{
	"blocky":         regexp.MustCompile(`^(?P<t>[\d-]{10} [\d:]{8})\t(?P<c>\S*)\t[^\t]*\t\d*\t[^\t]*\t(?P<n>\S+)\t[^\t]*\t\w*\t(?P<v>\w*)\t(?P<q>\w*)`),
	"nextdns":        regexp.MustCompile(`^(?:(?P<t>[\d-]{10}T[\d:.]+Z),(?P<n>[^,]+),(?P<q>\w*),\w*,[^,]*,(?P<c>[^,]*),(?P<v>\w*),|timestamp,domain,)`),
	"technitium":     regexp.MustCompile(`^(?:\d+,(?P<t>[^,]+),(?P<c>[^,]+),\w*,(?P<v>\w*),[\d.]*,\w*,(?P<n>[^,]+),(?P<q>\w*),|RowNumber,)`),
	"technitium-log": regexp.MustCompile(`^\[(?P<t>[\d-]{10} [\d:]{8})[^\]]*\] (?:\[(?P<c>\S+):\d+\] \[[^\]]*\] QNAME: (?P<n>[^;]+); QTYPE: (?P<q>\w+);)?`),
}

// parseQuery parses a line of one of queryLogs.
func parseQuery(line string, expr *regexp.Regexp, zone *time.Location) (Entry, error) {
	m := expr.FindStringSubmatch(line)
	if m == nil {
		return Entry{}, errors.New("no query with time, client, name and type where this format has them")
	}
	field := func(name string) string {
		if i := expr.SubexpIndex(name); i >= 0 {
			return m[i]
		}
		return ""
	}
	if field("n") == "" {
		return Entry{}, errNoRequest
	}
	at, err := time.Parse(time.RFC3339, field("t"))
	if err != nil {
		at, err = time.ParseInLocation(time.DateTime, field("t"), zone)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("reading the time of a query: %w", err)
	}
	e := Entry{Start: at.UTC(), Client: address(strings.Trim(field("c"), "[]"))}
	if v := strings.ToLower(field("v")); strings.Contains(v, "block") {
		e.Refused, e.Recorded = true, &RecordedVerdict{Action: filter.Block}
	} else if v != "" {
		e.Status, e.Recorded = 200, &RecordedVerdict{}
	}
	return e, e.setQuestion(field("n"), field("q"))
}
