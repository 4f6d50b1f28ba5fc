package whatif

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"shuultuur/lib/ascii"
)

// parseCombined parses a line in the common or combined format of Apache, nginx and many
// others:
//
//	[vhost[:port] ]client ident user [02/Jan/2006:15:04:05 -0700] "GET /x HTTP/1.1" status bytes ["referer" "agent"]
//
// base is put before a path without a host: "http://www.example.com".
func parseCombined(line, base string) (Entry, error) {
	head, rest, ok := strings.Cut(line, " [")
	if !ok {
		return Entry{}, errors.New("no time in brackets")
	}
	stamp, rest, ok := strings.Cut(rest, "] ")
	if !ok {
		return Entry{}, errors.New("the time does not end")
	}
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp)
	if err != nil {
		return Entry{}, fmt.Errorf("%.40q is not a time like 02/Jan/2006:15:04:05 -0700", stamp)
	}
	e := Entry{Start: at.UTC()}
	who := strings.Fields(head)
	switch len(who) {
	case 3:
	case 4:
		base, who = "http://"+strings.TrimSuffix(who[0], ":80"), who[1:]
		if v, ok := strings.CutSuffix(base, ":443"); ok {
			base = "https" + strings.TrimPrefix(v, "http")
		}
	default:
		return Entry{}, fmt.Errorf("%d fields before the time instead of client, ident and user", len(who))
	}
	e.Client, e.User = address(who[0]), dash(who[2])
	ask, rest, err := quoted(rest)
	if err != nil {
		return Entry{}, fmt.Errorf("the request: %w", err)
	}
	numbers := strings.SplitN(strings.TrimPrefix(rest, " "), " ", 3)
	if len(numbers) < 2 {
		return Entry{}, errors.New("no status and bytes after the request")
	}
	if e.Status, err = statusCode(numbers[0]); err != nil {
		return Entry{}, err
	}
	if e.Bytes, err = size(numbers[1]); err != nil {
		return Entry{}, err
	}
	if len(numbers) == 3 && strings.HasPrefix(numbers[2], `"`) {
		if err := e.tail(numbers[2]); err != nil {
			return Entry{}, err
		}
	}
	return e, e.requestLine(ask, base)
}

// tail parses "referer" "agent" and ignores further fields.
func (e *Entry) tail(s string) (err error) {
	if e.Referer, s, err = quoted(s); err != nil {
		return fmt.Errorf("the referer: %w", err)
	}
	if s = strings.TrimPrefix(s, " "); s != "" {
		if e.Agent, _, err = quoted(s); err != nil {
			return fmt.Errorf("the user agent: %w", err)
		}
	}
	e.Referer, e.Agent = dash(e.Referer), dash(e.Agent)
	return nil
}

func (e *Entry) requestLine(ask, base string) error {
	verb, target, _ := strings.Cut(ask, " ")
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	if target == "" || target == "*" || strings.HasPrefix(verb, `\x`) || strings.HasPrefix(verb, "\x16") {
		return errNoRequest // a TLS hello or noise on a plain port, OPTIONS *
	}
	if strings.HasPrefix(target, "/") {
		if base == "" {
			return errNoHost
		}
		target = strings.TrimSuffix(base, "/") + target
	}
	return e.request(verb, target)
}

// quoted parses a string in quotes that may contain \" \\ and \xHH.
func quoted(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("a quote is missing")
	}
	s = s[1:]
	end := strings.IndexAny(s, `"\`)
	if end >= 0 && s[end] == '"' {
		return s[:end], s[end+1:], nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] == 'x' && i+3 < len(s) && ascii.Unhex(s[i+2]) >= 0 && ascii.Unhex(s[i+3]) >= 0:
			b.WriteByte(byte(ascii.Unhex(s[i+2])<<4 | ascii.Unhex(s[i+3])))
			i += 3
		default:
			i++
			b.WriteByte(s[i])
		}
	}
	return "", "", errors.New("the quote is not closed")
}
