package whatif

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
)

// parseDansGuardian parses a line of DansGuardian's and e2guardian's log in format 1, with
// fields separated by blanks, 2, in quotes, or 4, separated by tabs:
//
//	date time user client URL reason method size weight category group-number status type client-name group-name agent, and four more of e2guardian
//
// Reason, category and agent may contain blanks. They are found by the numbers around them.
func parseDansGuardian(line string, in *time.Location) (Entry, error) {
	var f []string
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		line = strings.ReplaceAll(strings.TrimSuffix(rest, `"`), `","`, "\t")
	}
	if strings.Contains(line, "\t") {
		f = strings.Split(line, "\t")
		day, clock, _ := strings.Cut(f[0], " ")
		f = append([]string{day, clock}, f[1:]...)
	} else {
		f = strings.Split(line, " ")
	}
	if len(f) < 12 {
		return Entry{}, fmt.Errorf("%d fields; DansGuardian's log has 12 or more", len(f))
	}
	at, err := dottedTime(f[0], f[1], in)
	if err != nil {
		return Entry{}, err
	}
	how := 5
	for ; how+2 < len(f); how++ {
		if isMethod(f[how]) && isNumber(f[how+1]) && isNumber(f[how+2]) {
			break
		}
	}
	code := how + 3
	for ; code+1 < len(f); code++ {
		if isNumber(f[code]) && len(f[code+1]) == 3 && isNumber(f[code+1]) {
			break
		}
	}
	if code+1 >= len(f) {
		return Entry{}, errors.New("no method, size, weight, group and status where DansGuardian's log has them")
	}
	e := Entry{Start: at, User: unescape(dash(f[2])), Client: address(f[3])}
	if e.Bytes, err = size(f[how+1]); err != nil {
		return Entry{}, err
	}
	if e.Status, err = statusCode(f[code+1]); err != nil {
		return Entry{}, err
	}
	e.Type = dash(at0(f, code+2))
	e.Agent = agent(f[min(code+5, len(f)):])
	e.Recorded = marked(strings.Join(f[5:how], " "))
	e.Refused = e.Recorded.Action >= filter.Warn
	e.Recorded.Category = dash(strings.Join(f[how+3:code], " "))
	e.Recorded.Policy = dash(at0(f, code+4))
	if strings.HasPrefix(f[4], "dns://") {
		return e, e.request(Lookup, strings.TrimPrefix(f[4], "dns://"))
	}
	return e, e.request(f[how], f[4])
}

// agent returns the client's user agent. In e2guardian's log four more fields follow, which
// are empty without plug-ins.
func agent(f []string) string {
	for range 4 {
		if n := len(f); n > 1 && f[n-1] == "-" {
			f = f[:n-1]
		}
	}
	return dash(strings.Join(f, " "))
}

func at0(f []string, i int) string {
	if i < len(f) {
		return f[i]
	}
	return ""
}

// marked parses the verdict, "*DENIED* reason". It takes the first part of the reason as the
// rule.
func marked(s string) *RecordedVerdict {
	r := &RecordedVerdict{}
	s = strings.TrimSpace(s)
	switch {
	case strings.Contains(s, "*DENIED*"), strings.Contains(s, "*INFECTED*"):
		r.Action = filter.Block
	case strings.Contains(s, "*WARNING*"):
		r.Action = filter.Warn
	case strings.Contains(s, "*EXCEPTION*"):
		r.Action = filter.Allow
	case strings.Contains(s, "*URLMOD*"):
		r.Action = filter.Redirect
	}
	if i := strings.LastIndexByte(s, '*'); i >= 0 {
		rule, _, _ := strings.Cut(strings.TrimSpace(s[i+1:]), ":")
		r.Rule = dash(strings.TrimSpace(rule))
	}
	low := strings.ToLower(s)
	for _, of := range [...]string{"phrase", "weighted", "infected", "virus", "words"} {
		r.Unseen = r.Unseen || r.Action >= filter.Warn && strings.Contains(low, of)
	}
	return r
}

// dottedTime parses "2026.1.2" and "10:20:30", with or without padding.
func dottedTime(day, clock string, in *time.Location) (time.Time, error) {
	d, t := strings.Split(day, "."), strings.Split(clock, ":")
	if len(d) == 3 && len(t) == 3 {
		var n [6]int
		ok := true
		for i, s := range append(d, t...) {
			v, err := strconv.Atoi(s)
			ok = ok && err == nil && v >= 0 && v < 10_000
			n[i] = v
		}
		if ok && n[1] >= 1 && n[1] <= 12 && n[2] >= 1 && n[2] <= 31 && n[3] < 24 && n[4] < 60 && n[5] < 61 {
			return time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, in).UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time like 2006.01.02 15:04:05", day+" "+clock)
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

func isMethod(s string) bool {
	if len(s) < 3 || len(s) > 20 {
		return false
	}
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}
