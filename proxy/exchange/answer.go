package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/page"
	"shuultuur/proxy/saved"
)

// OwnHost is the host name of the proxy itself: requests for it by http get a page, or JSON,
// with the remaining quotas of the client. (.internal is reserved for private use: ICANN's
// board, 29 July 2024.)
const OwnHost = "shuultuur.internal"

// OwnPage answers a request for OwnHost.
func (x *Exchange) OwnPage(ctx context.Context) *message.Response {
	v := &x.T.Verdict
	v.Action = filter.Allow // so that the page itself uses no quota
	v.Reason.Finding = filter.Finding{Check: "proxy", Category: "own-page"}
	d := x.page(200)
	if x.Engine.Balance != nil {
		d.Policy, d.Quotas = x.Engine.Balance(ctx, &x.T.Client, x.T.Start)
		v.Reason.Policy = d.Policy
	}
	return x.render(page.Quota, &d)
}

// VotePath is the path for votes from block pages, on the blocked host itself: so a form works
// without a script, a second address or mixed content. (RFC 8615.)
const VotePath = "/.well-known/shuultuur/votes"

// maxVotes bounds the body of a request with votes, in bytes.
const maxVotes = 64 << 10

// IsVote reports whether a request is for the receiver of votes.
func (x *Exchange) IsVote() bool {
	if x.Engine.Votes == nil {
		return false
	}
	rest, ok := bytes.CutPrefix(x.Q.Path, []byte(VotePath))
	return ok && (len(rest) == 0 || rest[0] == '/' || rest[0] == '?')
}

// Vote answers a request below VotePath.
func (x *Exchange) Vote(ctx context.Context) *message.Response {
	v := &x.T.Verdict
	v.Action = filter.Allow
	v.Reason.Finding = filter.Finding{Check: "proxy", Category: "vote"}
	if x.Q.Method == "GET" || x.Q.Method == "HEAD" {
		v.Reason.Finding.Category = "answer" // somebody waits for it
	}
	var body []byte
	if x.Q.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(x.Q.Body, maxVotes+1)); err != nil || len(body) > maxVotes {
			return x.Fail(413, "The vote is too long.", "a vote that is too long or cut off")
		}
	}
	path, _, _ := strings.Cut(string(x.Q.Path), "?")
	status, ctype, answer, fields := x.Engine.Votes.Answer(ctx, &x.T, &x.Q, "/votes"+strings.TrimPrefix(path, VotePath), body)
	return x.Reply(status, ctype, answer, fields...)
}

// VerdictResponse returns the response for the verdict, when the request must not continue.
func (x *Exchange) VerdictResponse(ctx context.Context) *message.Response {
	v := &x.T.Verdict
	if v.Action != filter.Redirect && v.After == 0 {
		if s := standIn(x); s != nil {
			return s
		}
	}
	switch v.Action {
	case filter.Redirect:
		return x.Reply(302, "", nil, "Location", v.To)
	case filter.Warn:
		d := x.reasons(403)
		if x.T.Proto == filter.HTTP { // a tunnel has no URL to extend
			d.Continue, d.Form = continueURL(x.T.URL, v.To), x.form.fields()
		}
		return x.render(page.Warn, &d)
	}
	if name, ok := strings.CutPrefix(v.Reason.Finding.Modifier, "redirect="); ok {
		if r, ok := page.StandIn(name, &x.Q); ok {
			ctype, body, fields := substitute(r, &x.Q)
			return x.Reply(200, ctype, body, fields...)
		}
	}
	if p := v.Reason.Finding.Page; p != nil {
		if p.Location != "" && p.Status/100 == 3 {
			return x.Reply(p.Status, p.Type, p.Body, "Location", p.Location)
		}
		return x.Reply(p.Status, p.Type, p.Body)
	}
	if v.After == 0 {
		d := x.reasons(403)
		if x.Engine.Votes != nil {
			d.Vote, d.Token = VotePath, x.Engine.Votes.Token(&x.T)
		}
		return x.render(page.Block, &d)
	}
	d := x.reasons(429) // RFC 6585 section 4
	d.After = (v.After + time.Second - 1).Truncate(time.Second)
	if x.Engine.Balance != nil && d.Category == "quota" {
		_, d.Quotas = x.Engine.Balance(ctx, &x.T.Client, x.T.Start)
		if d.WantsTime() && x.Engine.Votes != nil {
			d.Vote, d.Token = VotePath, x.Engine.Votes.Token(&x.T)
		}
	}
	return x.render(page.Block, &d, "Retry-After", strconv.FormatInt(int64(d.After/time.Second), 10))
}

// Answer returns the response to a request whose inspection failed with err. It returns nil if
// the client has gone, or if err is an error of the body itself.
func (x *Exchange) Answer(ctx context.Context, err error) *message.Response {
	switch err {
	case ErrRefused:
		return x.VerdictResponse(ctx)
	case errNoRoom, errNoTurn:
		return x.Fail(503, "The proxy is busy. Try again in a moment.", err.Error())
	case saved.ErrFull:
		return x.Fail(503, "The file is too large to be checked before you get it, or too many are being checked.", err.Error())
	case errRange:
		return x.Fail(416, "This page cannot be had in parts.", err.Error())
	}
	return nil
}

// notice returns markup that ends a truncated page in any context: a comment, the value of an
// attribute, an element that cannot contain others. It has no script.
func notice(x *Exchange) []byte {
	return []byte(`<!--"'>--></script></style></textarea></title></noscript></template></select></svg></math>` +
		`<div role="alert" style="position:fixed;top:0;left:0;right:0;z-index:2147483647;padding:1em;background:#fff;color:#900;font:16px sans-serif;border-bottom:2px solid">` +
		`The rest of this page is blocked. Reference: ` + x.T.ID + `</div>`)
}

// Fail returns an error page. reason is for the client, note for the operator; fields are
// names and values.
func (x *Exchange) Fail(status int, reason, note string, fields ...string) *message.Response {
	x.Note(note)
	if status != 502 && status != 504 { // those are caused by the origin
		x.Refuse(note)
	}
	if status == 503 && len(fields) == 0 {
		fields = append(fields, "Retry-After", RetryAfter)
	}
	d := x.page(status)
	d.Reason = reason
	return x.render(page.Error, &d, fields...)
}

// RetryAfter is the number of seconds after which a client may try again if there was no
// capacity.
const RetryAfter = "5"

// Busy returns the response to a request for which there was no capacity.
func (x *Exchange) Busy(note string) *message.Response {
	x.Note(note)
	x.Refuse(note)
	form := page.FormOf(&x.Q)
	ctype, body := x.Engine.Pages.Busy(form)
	if form == page.Call {
		ctype, fields := callStatus(&x.Q, 503, "The proxy is busy. Try again in a moment.")
		return x.Reply(200, ctype, nil, fields...)
	}
	fields := []string{"Retry-After", RetryAfter}
	if policy := x.Engine.Pages.Policy(page.Error, form); policy != "" {
		fields = append(fields, "Content-Security-Policy", policy)
	}
	return x.Reply(503, ctype, body, fields...)
}

// Refuse records that the server itself, not a rule, refused the request.
func (x *Exchange) Refuse(note string) {
	v := &x.T.Verdict
	v.Action, v.Text = filter.Block, ""
	v.Reason = filter.Reason{Policy: v.Reason.Policy, Finding: filter.Finding{Check: "proxy", Category: "refused", Evidence: note}}
}

// page is a page about x.
func (x *Exchange) page(status int) page.Page {
	return page.Page{
		Status: status, Title: http.StatusText(status),
		Host: x.T.Host, URL: x.T.URL, ID: x.T.ID, Time: x.T.Start, User: x.T.Client.User,
		Texts: x.Engine.Pages.Texts(string(x.Q.Get("Accept-Language"))),
	}
}

// reasons returns a page that explains the verdict.
func (x *Exchange) reasons(status int) page.Page {
	d, r := x.page(status), &x.T.Verdict.Reason
	d.Why, d.Policy, d.Rule, d.Hours = page.Why(&x.T, d.Texts), r.Policy, r.Rule, r.Hours
	d.Text = x.T.Verdict.Text
	d.Category, d.Check, d.Score, d.Evidence = r.Finding.Category, r.Finding.Check, r.Finding.Score, r.Finding.Evidence
	return d
}

// render returns the response with a page, in the form that suits the request.
func (x *Exchange) render(k page.Kind, d *page.Page, fields ...string) *message.Response {
	form := page.FormOf(&x.Q)
	if form == page.Call && d.Status >= 400 {
		ctype, fields := callStatus(&x.Q, d.Status, x.Engine.Pages.Sum(k, d))
		return x.Reply(200, ctype, nil, fields...)
	}
	ctype, body := x.Engine.Pages.Render(k, form, d)
	if policy := x.Engine.Pages.Policy(k, form); policy != "" {
		fields = append(fields, "Content-Security-Policy", policy)
	}
	return x.Reply(d.Status, ctype, body, fields...)
}

// substitute returns the type, content and fields of a harmless replacement. Pages of any origin may use
// it as they would have used what it replaces.
func substitute(r page.Resource, q *message.Request) (ctype string, body []byte, fields []string) {
	fields = []string{"Timing-Allow-Origin", "*", "Cross-Origin-Resource-Policy", "cross-origin"}
	origin := string(q.Get("Origin"))
	if origin == "" {
		return r.Type, []byte(r.Body), append(fields, "Access-Control-Allow-Origin", "*")
	}
	fields = append(fields, "Access-Control-Allow-Origin", origin, "Access-Control-Allow-Credentials", "true", "Access-Control-Expose-Headers", "Content-Length", "Vary", "Origin")
	method := q.Get("Access-Control-Request-Method")
	if q.Method != "OPTIONS" || method == nil {
		return r.Type, []byte(r.Body), fields
	}
	fields = append(fields, "Access-Control-Allow-Methods", string(method))
	for ask, grant := range map[string]string{"Access-Control-Request-Headers": "Access-Control-Allow-Headers", "Access-Control-Request-Private-Network": "Access-Control-Allow-Private-Network"} {
		if v := q.Get(ask); v != nil {
			fields = append(fields, grant, string(v))
		}
	}
	return "", nil, fields
}

// callStatus returns the type and fields of the answer to a call of gRPC, instead of one with an HTTP
// status: its own status, with a message, in the head. Its clients read nothing else.
func callStatus(q *message.Request, of int, message string) (ctype string, fields []string) {
	status := 7 // permission denied
	switch of {
	case 401, 407, 511:
		status = 16 // unauthenticated
	case 413, 429:
		status = 8 // resource exhausted
	case 504:
		status = 4 // deadline exceeded
	case 500, 502, 503:
		status = 14 // unavailable
	}
	ctype = "application/grpc"
	if bytes.HasPrefix(bytes.ToLower(q.Get("Content-Type")), []byte("application/grpc-web")) {
		ctype = "application/grpc-web"
	}
	return ctype, []string{"Grpc-Status", strconv.Itoa(status), "Grpc-Message", percent(message)}
}

// LastHop answers TRACE and OPTIONS whose Max-Forwards ends here. The response to TRACE omits
// fields that the next reader should not see.
func (x *Exchange) LastHop() *message.Response {
	if x.Q.Method == "OPTIONS" {
		return x.Reply(200, "", nil, "Allow", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE, CONNECT")
	}
	b := append([]byte(nil), "TRACE "...)
	b = append(append(b, x.Q.Target...), " HTTP/1.1\r\n"...)
	for _, f := range x.Q.Fields {
		switch strings.ToLower(string(f.Name)) {
		case "cookie", "authorization", "proxy-authorization":
		default:
			b = append(append(append(append(b, f.Name...), ": "...), f.Value...), "\r\n"...)
		}
	}
	return x.Reply(200, "message/http", append(b, "\r\n"...))
}

const (
	acceptParam = "shuultuur-accept"
	maxTokens   = 4 // of accepted warnings, in the cookie
	maxToken    = 512
	acceptAge   = "86400" // seconds; the token itself may end earlier
)

// acceptToken finds the token of an accepted warning in a URL, and returns the URL without it.
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

// continueURL returns the target of the button on a warn page.
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
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return !isTokenByte(r) })
}

// Accept handles a click on a warn page: it spends the token and stores the resulting one in
// our cookie for that site. Without the cookie the client gets the warning again. It returns
// nil for other requests.
func (x *Exchange) Accept(ctx context.Context) *message.Response {
	token, rest, ok := acceptToken(x.T.URL)
	if !ok || x.Q.Method != "GET" && x.Q.Method != "HEAD" && x.Q.Method != "POST" {
		return nil
	}
	status := 302
	if x.Q.Method == "POST" {
		status = 307 // the browser sends the form again
	}
	token, err := url.QueryUnescape(token)
	switch {
	case err != nil || !isToken(token) || x.Engine.Accept == nil:
		err = errNoToken
	default:
		token, err = x.Engine.Accept(ctx, &x.T, token)
	}
	if err != nil {
		x.in.counters[clicksRefused].Add(1)
		x.Note("click on a warning does not count: " + err.Error())
		return x.Reply(status, "", nil, "Location", rest)
	}
	x.in.counters[clicks].Add(1)
	x.Note("warning clicked through")
	tokens := []string{token}
	for _, f := range x.Q.Fields {
		if !message.EqualName(f.Name, "cookie") {
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
	cookie := acceptCookie + "=" + strings.Join(tokens, ".") + "; Path=/; HttpOnly; SameSite=Lax; Max-Age=" + acceptAge
	if site, shared := filter.Site(x.T.Host); shared {
		cookie += "; Domain=" + site // for what the page loads from other hosts of its site
	}
	return x.Reply(status, "", nil, "Location", rest, "Set-Cookie", cookie)
}

// Reply returns a response of the proxy; fields are names and values. It is valid until the
// next one, or End.
func (x *Exchange) Reply(status int, ctype string, body []byte, fields ...string) *message.Response {
	s := &x.answer
	*s = message.Response{Status: status, Reason: []byte(http.StatusText(status)), Proto: 11, Fields: s.Fields[:0], Length: int64(len(body)), Body: &x.body}
	x.body.Set(body)
	s.Fields = append(s.Fields, message.Field{Name: []byte("Date"), Value: x.T.Start.UTC().AppendFormat(nil, http.TimeFormat)})
	for i := 0; i < len(fields); i += 2 {
		s.Add(fields[i], fieldValue(fields[i+1]))
	}
	if ctype != "" {
		s.Add("Content-Type", ctype)
		s.Add("X-Content-Type-Options", "nosniff")
	}
	s.Add("Cache-Control", "no-store")
	s.Add("Content-Length", strconv.Itoa(len(body)))
	return s
}

// fieldValue makes s suitable as a field value.
func fieldValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

func isTokenByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// RetryAfter returns a response that asks the client to try again after a while.
func (x *Exchange) RetryAfter(status int, after time.Duration, note string) *message.Response {
	seconds := max(1, int((after+time.Second-1)/time.Second))
	return x.Fail(status, "Please try again later.", note, "Retry-After", strconv.Itoa(seconds))
}

// AnswerUnidentified answers a request whose client could not be identified. If the error has
// a method Challenges() []string, the client must log in: the strings are the values of
// Proxy-Authenticate. If it has RetryAfter() (status int, after time.Duration), the client must try
// again later. If it has SignIn() string, the client must sign in on that page.
func (x *Exchange) AnswerUnidentified(err error) *message.Response {
	if at := SignInPage(err); at != "" {
		return sendToSignIn(x, at, err)
	}
	if c, ok := errors.AsType[interface {
		error
		Challenges() []string
	}](err); ok {
		text, fields := "The proxy requires you to sign in.", make([]string, 0, 4)
		for _, v := range c.Challenges() {
			fields = append(fields, "Proxy-Authenticate", v)
		}
		if a, ok := errors.AsType[interface {
			error
			Advice() string
		}](err); ok && a.Advice() != "" {
			text += " " + a.Advice()
		}
		return x.Fail(407, text, "sign-in requested: "+err.Error(), fields...)
	}
	if l, ok := errors.AsType[retryError](err); ok {
		status, after := l.RetryAfter()
		return x.RetryAfter(status, after, "identify: "+err.Error())
	}
	return x.Fail(403, "The proxy does not know you.", "identify: "+err.Error())
}

// A signInError is an error that signing in on a page resolves.
type signInError interface {
	error
	SignIn() string // address of the page
}

// AsksToRetry reports whether err asks the client to try again later.
func AsksToRetry(err error) bool {
	_, ok := errors.AsType[retryError](err)
	return ok
}

// A retryError is a temporary error.
type retryError interface {
	error
	RetryAfter() (status int, after time.Duration)
}

// SignInPage returns the address of the page on which signing in resolves err, "" if none does.
func SignInPage(err error) string {
	s, ok := errors.AsType[signInError](err)
	if !ok {
		return ""
	}
	return s.SignIn()
}

// AtSignIn reports whether a request leads to the page on which err asks the client to sign in.
func AtSignIn(err error, t *filter.Transaction) bool {
	at := SignInPage(err)
	page, err := url.Parse(at)
	if at == "" || err != nil {
		return false
	}
	port := page.Port()
	switch {
	case port != "":
	case page.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return strings.EqualFold(page.Hostname(), t.Host) && port == strconv.Itoa(int(t.Port))
}

// MayReach reports whether a client that is not identified because of err may reach a host.
func MayReach(err error, host string) bool {
	s, ok := errors.AsType[interface {
		error
		OpenHost(host string) bool // reachable without signing in
	}](err)
	return ok && s.OpenHost(host)
}

// sendToSignIn sends the client to the sign-in page: it redirects browsers that show a page,
// and gives the address to everything else (RFC 6585 section 6).
func sendToSignIn(x *Exchange, at string, err error) *message.Response {
	note := "sign-in requested: " + err.Error()
	form := page.FormOf(&x.Q)
	if x.T.Proto == filter.HTTP && (x.Q.Method == "GET" || x.Q.Method == "HEAD") && (form == page.Document || form == page.Frame || form == page.Plain) {
		x.Note(note)
		x.Refuse(note)
		return x.Reply(302, "", nil, "Location", at+"?to="+url.QueryEscape(x.T.URL))
	}
	return x.Fail(511, "Sign in first, at "+at, note)
}
