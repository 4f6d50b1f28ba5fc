package whatif

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseSquid parses a line of Squid's native access.log:
//
//	time.ms duration client result/status bytes method URL user hierarchy/peer type
//
// A URL that contains blanks (uri_whitespace allow) is found by counting fields from both
// ends. Header dumps after the type (log_mime_hdrs) are ignored.
func parseSquid(line string) (Entry, error) {
	if i := strings.Index(line, " ["); i >= 0 && strings.HasSuffix(line, "]") {
		line = line[:i]
	}
	f := strings.Fields(line)
	n := len(f)
	if n < 10 {
		return Entry{}, fmt.Errorf("%d fields; Squid's native log has 10", n)
	}
	end, err := unixMillis(f[0])
	if err != nil {
		return Entry{}, err
	}
	took, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || took < 0 || took > maxMillis {
		return Entry{}, fmt.Errorf("%.40q is not a duration in milliseconds", f[1])
	}
	e := Entry{Duration: time.Duration(took) * time.Millisecond, Client: address(f[2]), User: unescape(dash(f[n-3])), Type: dash(f[n-1])}
	e.Start = end.Add(-e.Duration)
	result, code, ok := strings.Cut(f[3], "/")
	if !ok {
		return Entry{}, fmt.Errorf("%.40q is not a result and a status", f[3])
	}
	if e.Status, err = statusCode(code); err != nil {
		return Entry{}, err
	}
	if e.Bytes, err = size(f[4]); err != nil {
		return Entry{}, err
	}
	e.Refused = strings.Contains(result, "DENIED") || result == "TCP_REDIRECT"
	return e, e.request(f[5], strings.Join(f[6:n-3], "%20"))
}

// maxMillis limits a duration: 30 days.
const maxMillis = 30 * 24 * 3600 * 1000

func unixMillis(s string) (time.Time, error) {
	sec, frac, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || n < 0 || n > 1<<34 || len(frac) > 6 {
		return time.Time{}, fmt.Errorf("%.40q is not a time in seconds", s)
	}
	micros := int64(0)
	if frac != "" {
		if micros, err = strconv.ParseInt((frac + "000000")[:6], 10, 64); err != nil || micros < 0 {
			return time.Time{}, fmt.Errorf("%.40q is not a time in seconds", s)
		}
	}
	return time.Unix(n, micros*1000).UTC(), nil
}

// request sets method and target as proxies write them.
func (e *Entry) request(verb, target string) (err error) {
	if verb == "NONE" || verb == "-" || strings.HasPrefix(verb, "ICP_") || strings.HasPrefix(verb, "HTCP_") || strings.HasPrefix(target, "error:") {
		return errNoRequest
	}
	if e.Method, err = method(verb); err != nil {
		return err
	}
	switch e.Method {
	case Lookup:
		return e.setHost(strings.TrimPrefix(target, "dns:"), 0)
	case Tunnel:
		if _, rest, ok := strings.Cut(target, "://"); ok {
			target, _, _ = strings.Cut(rest, "/")
		}
		return e.setHost(target, 443)
	}
	return e.setURL(target)
}
