package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/filter"
)

// parseEvent parses a line of our own JSON lines.
func parseEvent(line string) (Entry, error) {
	r, err := jsonl.ParseLine([]byte(line))
	if err != nil {
		return Entry{}, err
	}
	return fromRow(&r)
}

func fromRow(r *event.Row) (Entry, error) {
	e := Entry{
		Start: r.Start(), Duration: r.Duration, Minutes: r.Used(), Client: r.Client, User: r.User, Status: r.Status,
		Sent: max(0, r.BytesIn), Bytes: max(0, r.BytesOut), Type: r.Type, Refused: r.Action >= filter.Warn,
		Recorded: &RecordedVerdict{Action: r.Action, Policy: r.Policy, Rule: r.Rule, Category: r.Category, Unseen: r.Learned, findings: r.Findings, looked: r.Looked > 0},
	}
	if r.Action == filter.Block && r.Rule == "" && r.Category == "refused" {
		e.Recorded = nil // the server would refuse it whatever the policy says
	}
	switch {
	case r.Proto == filter.DNS:
		e.Method = Lookup
		return e, e.setName(r.Host, 0)
	case r.Proto == filter.TLS:
		e.Decrypted = slices.Contains(strings.Split(r.Note, "; "), "decrypted")
		e.Method, e.Opening = Tunnel, openingOf(r)
		return e, e.setName(r.Host, r.Port)
	case r.URL == "":
		return e, errNoRequest // it was refused without being read
	case strings.HasSuffix(r.URL, "…"):
		return e, errors.New("the URL is too long for a record")
	}
	verb := r.Method
	if verb == "" {
		verb = "GET"
	}
	return e, e.request(verb, r.URL)
}

// openingOf returns what was said first in a tunnel, "" if no check looked.
func openingOf(r *event.Row) (kind string) {
	if !strings.Contains(r.Findings, filter.Tunnel) {
		return ""
	}
	all, _ := findingsIn(r.Findings)
	for _, f := range all {
		if f.Check == filter.Tunnel {
			kind = f.Category
		}
	}
	return kind
}

// findingsIn reads the findings of a record; it fails if they were cut short.
func findingsIn(text string) (all []filter.Finding, ok bool) {
	ok = text == "" || json.Unmarshal([]byte(text), &all) == nil
	return all, ok
}

// isUnseen reports whether the verdict was due to what a record does not contain.
func (v *RecordedVerdict) isUnseen() bool {
	all, ok := findingsIn(v.findings)
	if v.Unseen || !ok {
		return true
	}
	decided := v.Category == "" // a rule without categories
	for _, f := range all {
		if f.Check == "policy" && f.Category != "uncovered" { // limits, quotas, warnings that were accepted, pauses
			return true
		}
		if f.Category == v.Category {
			if f.Check != "category" && f.Check != "policy" && f.Check != filter.Tunnel {
				return true
			}
			decided = true
		}
	}
	return !decided && v.looked
}

// setName is setHost for a host without a port.
func (e *Entry) setName(host string, port uint16) error {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return e.setHost(host, port)
}

// Events yields a record of events, oldest first. name is for messages; in collects the counts
// as for files.
func (s *Source) Events(ctx context.Context, q event.Reader, name string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s.in.Files = append(s.in.Files, name)
		for r, err := range q.Query(ctx, event.Filter{}, event.Page{}) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			s.in.Lines++
			e, err := fromRow(&r)
			if !s.countLine(name, ": row ", s.in.Lines, err) {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
