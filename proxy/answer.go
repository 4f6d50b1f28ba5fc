package proxy

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
)

// A kind is which of the pages a client gets.
type kind uint8

const (
	blockPage kind = iota
	warnPage
	errorPage
	quotaPage
)

// kinds are their names: of templates, and in JSON.
var kinds = [...]string{blockPage: "block", warnPage: "warn", errorPage: "error", quotaPage: "quota"}

// OwnHost is the host that the proxy is itself: who asks for it by http gets a
// page, or JSON, that says what is left of his quotas. (.internal is
// kept for private use: ICANN's board, 29 July 2024.)
const OwnHost = "shuultuur.internal"

// own answers what is asked of us.
func (x *session) own() (more bool) {
	v := &x.t.Verdict
	v.Action = filter.Allow // so that the page itself costs nothing
	v.Reason.Finding = filter.Finding{Check: "proxy", Category: "own-page"}
	d := Page{Status: 200, Title: http.StatusText(200), Host: x.t.Host, URL: x.t.URL, ID: x.t.ID, Time: x.t.Start, User: x.t.Client.User}
	if x.eng.Balance != nil {
		d.Policy, d.Quotas = x.eng.Balance(x.ctx, &x.t.Client, x.t.Start)
		v.Reason.Policy = d.Policy
	}
	ctype, body := x.eng.Pages.render(quotaPage, x.form(), &d)
	return x.reply(200, ctype, body)
}

// obey answers with what the verdict says; it is not to go on.
func (x *session) obey() (more bool) {
	x.countVerdict()
	v := &x.t.Verdict
	switch v.Action {
	case filter.Redirect:
		return x.reply(302, "", nil, "Location", v.To)
	case filter.Warn:
		return x.page(warnPage, 403, "")
	}
	if name, ok := strings.CutPrefix(v.Reason.Finding.Modifier, "redirect="); ok {
		if r, ok := standIn(name); ok {
			return x.reply(200, r.ctype, []byte(r.body))
		}
	}
	if v.After > 0 {
		return x.page(blockPage, 429, "") // RFC 6585, 4
	}
	return x.page(blockPage, 403, "")
}

func (x *session) countVerdict() {
	switch x.t.Verdict.Action {
	case filter.Block:
		x.p.counters.blocked.Add(1)
	case filter.Warn:
		x.p.counters.warned.Add(1)
	case filter.Redirect:
		x.p.counters.redirected.Add(1)
	}
}

// fail answers with an error page: reason is for the client, note for the
// operator.
func (x *session) fail(status int, reason, note string) (more bool) {
	x.note(note)
	if status != 502 && status != 504 { // those are the origin's doing
		x.refuse(note)
	}
	return x.page(errorPage, status, reason)
}

// refuse puts on record that the proxy itself, not a rule, said no.
func (x *session) refuse(note string) {
	v := &x.t.Verdict
	v.Action = filter.Block
	v.Reason = filter.Reason{Policy: v.Reason.Policy, Finding: filter.Finding{Check: "proxy", Category: "refused", Evidence: note}}
}

// page answers with one of the pages, in the form that fits what the client
// wants to do with it.
func (x *session) page(k kind, status int, reason string) (more bool) {
	eng := x.eng
	v := &x.t.Verdict
	d := Page{
		Status: status, Title: http.StatusText(status), Reason: reason,
		Host: x.t.Host, URL: x.t.URL, ID: x.t.ID, Time: x.t.Start, User: x.t.Client.User,
	}
	if k != errorPage {
		d.Why = why(&x.t)
		d.Policy, d.Rule = v.Reason.Policy, v.Reason.Rule
		d.Category, d.Check = v.Reason.Finding.Category, v.Reason.Finding.Check
		d.Score, d.Evidence = v.Reason.Finding.Score, v.Reason.Finding.Evidence
	}
	if k == warnPage && x.t.Proto == filter.HTTP { // a tunnel has no URL to add to
		d.Continue = continueURL(x.t.URL, v.To)
	}
	if status == 429 {
		d.After = (v.After + time.Second - 1).Truncate(time.Second)
		if x.eng.Balance != nil && d.Category == "quota" {
			_, d.Quotas = x.eng.Balance(x.ctx, &x.t.Client, x.t.Start)
		}
	}
	ctype, body := eng.Pages.render(k, x.form(), &d)
	if status == 429 {
		return x.reply(status, ctype, body, "Retry-After", strconv.FormatInt(int64(d.After/time.Second), 10))
	}
	if status == 503 {
		x.p.counters.overload.Add(1)
		return x.reply(status, ctype, body, "Retry-After", retryAfter)
	}
	return x.reply(status, ctype, body)
}

// form chooses the form of a page: a program gets JSON, an <img> a picture.
func (x *session) form() form {
	accept := x.q.Get("Accept")
	dest := x.q.Get("Sec-Fetch-Dest")
	switch {
	case string(dest) == "image", dest == nil && bytes.HasPrefix(accept, []byte("image/")):
		return picture
	case string(dest) == "empty", bytes.EqualFold(x.q.Get("X-Requested-With"), []byte("XMLHttpRequest")),
		bytes.Contains(accept, []byte("application/json")) && !bytes.Contains(accept, []byte("text/html")):
		return object
	}
	return document
}

// help answers who took the proxy for a web server.
func (x *session) help() (more bool) {
	x.t.Last = filter.Name
	return x.fail(400, "This is a web proxy, not a web site. Enter its address and port in the proxy settings of the browser or the system.", "request in origin form")
}

// challenge asks the client to log in (RFC 9110, 11.7.1).
func (x *session) challenge(value string) (more bool) {
	x.refuse("log-in asked for")
	d := Page{Status: 407, Title: http.StatusText(407), Reason: "The proxy wants to know who you are.", ID: x.t.ID, Time: x.t.Start, Host: x.t.Host, URL: x.t.URL}
	ctype, body := x.eng.Pages.render(errorPage, x.form(), &d)
	return x.reply(407, ctype, body, "Proxy-Authenticate", value)
}

// comeBack tells the client to try again after a while.
func (x *session) comeBack(status int, after time.Duration, note string) (more bool) {
	x.note(note)
	x.refuse(note)
	d := Page{Status: status, Title: http.StatusText(status), Reason: "Please try again later.", ID: x.t.ID, Time: x.t.Start, Host: x.t.Host, URL: x.t.URL}
	ctype, body := x.eng.Pages.render(errorPage, x.form(), &d)
	seconds := max(1, int((after+time.Second-1)/time.Second))
	return x.reply(status, ctype, body, "Retry-After", strconv.Itoa(seconds))
}

// lastHop answers TRACE and OPTIONS whose Max-Forwards ends here. What TRACE
// sends back leaves out what the next reader should not see.
func (x *session) lastHop() (more bool) {
	if x.q.Method == "OPTIONS" {
		return x.reply(200, "", nil, "Allow", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE, CONNECT")
	}
	b := append([]byte(nil), "TRACE "...)
	b = append(append(b, x.q.Target...), " HTTP/1.1\r\n"...)
	for _, f := range x.q.Fields {
		switch strings.ToLower(string(f.Name)) {
		case "cookie", "authorization", "proxy-authorization":
		default:
			b = appendRaw(b, f)
		}
	}
	return x.reply(200, "message/http", append(b, "\r\n"...))
}

const (
	acceptParam = "shuultuur-accept"
	maxTokens   = 4 // of warnings clicked through, in the cookie
	maxToken    = 512
	acceptAge   = "86400" // seconds; the token itself may end earlier
)

// acceptToken finds the token of a warning clicked through in a URL and
// returns the URL without it.
func acceptToken(u string) (token, rest string, ok bool) {
	if !strings.Contains(u, acceptParam+"=") {
		return "", "", false
	}
	base, query, _ := strings.Cut(u, "?")
	sep := "?"
	for part := range strings.SplitSeq(query, "&") {
		if v, is := strings.CutPrefix(part, acceptParam+"="); is {
			token, ok = v, true
			continue
		}
		base += sep + part
		sep = "&"
	}
	return token, base, ok
}

// continueURL is where the button of a warn page leads.
func continueURL(u, token string) string {
	if _, rest, ok := acceptToken(u); ok {
		u = rest
	}
	sep := "?"
	if strings.Contains(u, "?") {
		sep = "&"
	}
	return u + sep + acceptParam + "=" + url.QueryEscape(token)
}

var errNoToken = errors.New("not a token")

func isToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return !isTokenByte(r) || r == '.' })
}

// accept has the token of a click on a warn page spent and puts the one that
// comes of it into our cookie on that site. Without it the client meets the
// warning again.
func (x *session) accept(token, rest string) (more bool) {
	token, err := url.QueryUnescape(token)
	switch {
	case err != nil || !isToken(token) || x.eng.Accept == nil:
		err = errNoToken
	default:
		token, err = x.eng.Accept(x.ctx, &x.t, token)
	}
	if err != nil {
		x.p.counters.clicksRefused.Add(1)
		x.note("click on a warning does not count: " + err.Error())
		return x.reply(302, "", nil, "Location", rest)
	}
	x.p.counters.clicks.Add(1)
	x.note("warning clicked through")
	tokens := []string{token}
	for _, f := range x.q.Fields {
		if !equalFold(f.Name, "cookie") {
			continue
		}
		for part := range strings.SplitSeq(string(f.Value), ";") {
			v, ok := strings.CutPrefix(strings.TrimSpace(part), acceptCookie+"=")
			if !ok {
				continue
			}
			for old := range strings.SplitSeq(v, ".") {
				if isToken(old) && old != token && len(tokens) < maxTokens {
					tokens = append(tokens, old)
				}
			}
		}
	}
	return x.reply(302, "", nil, "Location", rest,
		"Set-Cookie", acceptCookie+"="+strings.Join(tokens, ".")+"; Path=/; HttpOnly; SameSite=Lax; Max-Age="+acceptAge)
}

// reply answers with a response of our own; fields are names and values.
func (x *session) reply(status int, ctype string, body []byte, fields ...string) (more bool) {
	if x.started {
		return x.cut(nil)
	}
	x.send.stop()
	if x.up != nil { // what is left of the response is not worth reading
		x.dropUpstream()
	}
	keep := x.settle()
	b := append(x.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
	b = append(x.t.Start.UTC().AppendFormat(append(b, "Date: "...), http.TimeFormat), "\r\n"...)
	for i := 0; i < len(fields); i += 2 {
		b = appendField(b, fields[i], []byte(oneLine(fields[i+1])))
	}
	if ctype != "" {
		b = append(append(append(b, "Content-Type: "...), ctype...), "\r\nX-Content-Type-Options: nosniff\r\n"...)
	}
	b = append(b, "Cache-Control: no-store\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	switch {
	case !keep:
		b = append(b, "Connection: close\r\n"...)
	case x.q.Proto == 10:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if x.q.Method != "HEAD" {
		b = append(b, body...)
		x.t.BytesOut = int64(len(body))
	}
	x.out = b
	x.t.Status = status
	x.arm(time.Now(), x.p.cfg.Answer)
	if _, err := x.c.Write(b); err != nil {
		return x.lostClient(err)
	}
	return keep
}

// oneLine makes a field value of a string from elsewhere.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
