package squid

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules has the rules of a squid.conf.
type rules struct{ c *config }

func Rules(s *original.Source, path string) (original.Rules, error) {
	c, err := readConfig(build.New(s.Ctx, "squid", path, ""), path)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.acls)) {
		a := c.acls[name]
		if !slices.Contains(tried, a.kind) {
			s.Untested("acl %s is of type %s", name, a.kind)
		}
		for _, v := range a.values {
			if a.expressive() {
				x, err := regexp.Compile(v)
				if err == nil && a.fold[v] {
					x, err = regexp.Compile("(?i:" + v + ")")
				}
				if err != nil {
					s.Untested("acl %s: %v", name, err)
					continue
				}
				a.expressions = append(a.expressions, x)
			}
		}
	}
	return &rules{c}, nil
}

// tried names the types of acls that the data in a log can decide.
var tried = []string{"src", "dst", "dstdomain", "ssl::server_name", "ssl::server_name_regex", "dstdom_regex", "url_regex", "urlpath_regex", "port", "method", "browser", "referer_regex",
	"time", "proxy_auth", "proto", "rep_mime_type", "req_header", "any-of", "all-of"}

// Decide evaluates http_access when the request is known, and http_reply_access when the
// response is.
func (s *rules) Decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	lines := s.c.access
	switch {
	case stage == filter.Response:
		lines = s.c.replies
	case stage != filter.Request && t.Last != stage:
		return original.Decision{}, false
	}
	d := original.Decision{Refuse: len(lines) > 0, By: "the opposite of the last line"}
	if n := len(lines); n > 0 {
		d.Refuse = lines[n-1].allow
	}
	for _, l := range lines {
		fits := true
		for _, name := range l.names {
			if name, not := strings.CutPrefix(name, "!"); s.aclMatches(t, name, 0) == not {
				fits = false
				break
			}
		}
		if fits {
			return original.Decision{Refuse: !l.allow, By: fmt.Sprintf("line %d", l.at.Line)}, true
		}
	}
	return d, true
}

// aclMatches reports whether an acl matches.
func (s *rules) aclMatches(t *filter.Transaction, name string, depth int) bool {
	a := s.c.acls[name]
	switch {
	case name == "all":
		return true
	case a == nil || depth > input.MaxDepth:
		return false
	}
	some := func(is func(v string) bool) bool { return slices.ContainsFunc(a.values, is) }
	matches := func(text string) bool {
		return slices.ContainsFunc(a.expressions, func(x *regexp.Regexp) bool { return x.MatchString(text) })
	}
	field := func(name string) string {
		if t.Request == nil {
			return ""
		}
		return string(t.Request.Get(name))
	}
	switch a.kind {
	case "src":
		return build.Covers(networksOf(a.values), netip.PrefixFrom(t.Client.Addr, t.Client.Addr.BitLen()))
	case "dst":
		ip, err := netip.ParseAddr(t.Host)
		return a.coversAddresses() || err == nil && build.Covers(networksOf(a.values), netip.PrefixFrom(ip, ip.BitLen()))
	case "dstdomain", "ssl::server_name":
		return some(func(v string) bool {
			v = strings.ToLower(v)
			return t.Host == v || strings.HasPrefix(v, ".") && (strings.HasSuffix(t.Host, v) || t.Host == v[1:])
		})
	case "dstdom_regex", "ssl::server_name_regex":
		return matches(t.Host)
	case "url_regex":
		if t.Request == nil {
			return matches(t.Host + ":" + strconv.Itoa(int(t.Port)))
		}
		return matches(t.URL)
	case "urlpath_regex":
		return t.Request != nil && matches(string(t.Request.Path))
	case "port":
		return some(func(v string) bool { return input.HasPort(v, t.Port) })
	case "method":
		return some(func(v string) bool {
			return t.Request == nil && strings.EqualFold(v, "CONNECT") || t.Request != nil && strings.EqualFold(v, t.Request.Method)
		})
	case "proto":
		return t.Request != nil && some(func(v string) bool { return strings.EqualFold(v, t.Request.Scheme) })
	case "browser":
		return matches(field("User-Agent"))
	case "referer_regex":
		return matches(field("Referer"))
	case "req_header":
		return len(a.values) > 1 && len(a.expressions) > 1 && slices.ContainsFunc(a.expressions[1:], func(x *regexp.Regexp) bool { return x.MatchString(field(a.values[0])) })
	case "rep_mime_type":
		if t.Response == nil {
			return false
		}
		kind, _, _ := strings.Cut(string(t.Response.Get("Content-Type")), ";")
		return matches(strings.TrimSpace(kind))
	case "time":
		return isNow(a.values, t.Start)
	case "proxy_auth":
		return t.Client.User != "" && (a.coversUsers() || slices.Contains(a.values, t.Client.User))
	case "any-of", "all-of":
		return s.composed(t, a, depth+1)
	}
	return false
}

// composed reports whether an acl made of acls matches.
func (s *rules) composed(t *filter.Transaction, a *acl, depth int) bool {
	every := func(names []string) bool {
		return !slices.ContainsFunc(names, func(n string) bool {
			n, not := strings.CutPrefix(n, "!")
			return s.aclMatches(t, n, depth) == not
		})
	}
	return slices.ContainsFunc(a.lines, func(line []string) bool {
		if a.kind == "all-of" {
			return every(line)
		}
		return slices.ContainsFunc(line, func(n string) bool { return every([]string{n}) })
	})
}

// isNow reports whether an acl's time is now: days as letters, then hours of these days.
func isNow(values []string, now time.Time) bool {
	days := ""
	for i, v := range values {
		m := input.Hours.FindStringSubmatch(v)
		if m == nil {
			days = v
			if i+1 < len(values) && input.Hours.MatchString(values[i+1]) {
				continue // the hours follow
			}
		}
		letter := "SMTWHFA"[now.Weekday()]
		weekday := letter != 'S' && letter != 'A'
		if days != "" && strings.IndexByte(days, letter) < 0 && !(weekday && strings.Contains(days, "D")) {
			days = ""
			continue
		}
		if days = ""; m == nil {
			return true
		}
		at := now.Format("1504")
		if from, to := fmt.Sprintf("%02s%s", m[1], m[2]), fmt.Sprintf("%02s%s", m[3], m[4]); from <= at && at <= to {
			return true
		}
	}
	return false
}

// readConfig reads squid.conf without converting it.
func readConfig(w *build.Work, path string) (*config, error) {
	if !input.IsFile(path) {
		path = filepath.Join(path, "squid.conf")
	}
	c := newConfig(w, path)
	return c, c.read(path, 0)
}
