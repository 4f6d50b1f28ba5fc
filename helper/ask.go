package helper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
)

// A question is Squid's description of a request.
type question struct {
	url    string // host:port for CONNECT
	addr   netip.Addr
	user   string
	method string
}

// rewrite answers a line of url_rewrite_program: URL, address/name, user,
// method, and fields that are not needed.
func (s *Server) rewrite(ctx context.Context, e *Engine, line string) []byte {
	all := strings.Fields(line)
	if len(all) == 0 {
		return broken("the question is empty")
	}
	q := question{url: all[0], method: "GET"} // the URL stays that of the client
	if len(all) > 1 {
		addr, _, _ := strings.Cut(unescape(all[1]), "/")
		q.addr, _ = netip.ParseAddr(addr) // "-": the request is Squid's own
	}
	if len(all) > 2 {
		q.user = fieldOrEmpty(unescape(all[2]))
	}
	if len(all) > 3 && fieldOrEmpty(all[3]) != "" {
		q.method = all[3]
	}
	if id, ok := strings.CutPrefix(q.url, "http://"+exchange.OwnHost+"/"); ok {
		if k := s.pages.find(id); k == nil || k.x.T.Client.Addr != q.addr {
			id = "" // this name belongs to another client
		}
		return appendPair([]byte("OK"), "rewrite-url", s.pages.url(id), true)
	}
	x, _, unknown := s.judge(ctx, e, &q)
	if x == nil { // on BH, Squid would pass the request
		s.refusals.Add(1)
		return appendPair([]byte("OK"), "rewrite-url", s.pages.url(malformed), true)
	}
	switch {
	case unknown == nil:
	case exchange.AtSignIn(unknown, &x.T): // else nobody could sign in
		s.letSignIn(x)
		return []byte("ERR")
	case !exchange.MayReach(unknown, x.T.Host):
		page := s.refuseUnknown(x, unknown)
		if x.T.Proto == filter.TLS {
			return appendPair([]byte("OK status=302"), "url", page, true)
		}
		s.pages.keepPage(x.T.ID, &refused{x: x, engine: e, unknown: unknown})
		return appendPair([]byte("OK"), "rewrite-url", s.pages.url(x.T.ID), true)
	}
	if to, ok := s.pages.clicked(ctx, x, q.addr, q.user); ok {
		s.record(x)
		return appendPair([]byte("OK status=302"), "url", to, true)
	}
	pass := x.JudgeHead(ctx)
	v := &x.T.Verdict
	switch {
	case pass:
		out := changed(x)
		s.record(x)
		if out == "" {
			return []byte("ERR")
		}
		return appendPair([]byte("OK"), "rewrite-url", out, true)
	case v.Action == filter.Redirect:
		s.refusals.Add(1)
		to := v.To
		s.record(x)
		return appendPair([]byte("OK status=302"), "url", to, true)
	}
	s.refusals.Add(1)
	id := x.T.ID
	s.record(x)
	s.pages.keepPage(id, &refused{x: x, engine: e})
	if x.T.Proto == filter.TLS { // for CONNECT only a refusal is possible
		return appendPair([]byte("OK status=302"), "url", "http://"+exchange.OwnHost+"/"+id, true)
	}
	return appendPair([]byte("OK"), "rewrite-url", s.pages.url(id), true)
}

// letSignIn lets a client reach the page to sign in on.
func (s *Server) letSignIn(x *exchange.Exchange) {
	x.T.Verdict.Action = filter.Allow
	s.record(x)
}

// refuseUnknown refuses a request whose client has to sign in, and returns the address of the page.
func (s *Server) refuseUnknown(x *exchange.Exchange, unknown error) (page string) {
	s.refusals.Add(1)
	_ = x.AnswerUnidentified(unknown) // for the record; Squid fetches the answer when it has the client's fields
	s.record(x)
	return exchange.SignInPage(unknown)
}

// judge makes a transaction from a question. If it cannot, it returns the reason. The error unknown
// says that the client has to sign in on a page.
func (s *Server) judge(ctx context.Context, e *Engine, q *question) (x *exchange.Exchange, why string, unknown error) {
	x = new(exchange.Exchange)
	s.inspector.Exchange(x)
	now := time.Now()
	x.Begin(&e.judge, now, s.ids.Next(now))
	x.T.Flow = new(filter.Flow)
	if err := fill(x, q, s.pages.cookie(q)); err != nil {
		s.failed.Add(1)
		return nil, fmt.Sprintf("%.200q: %v", q.url, err), nil
	}
	var err error
	if q.user != "" {
		x.T.Client, err = e.Member(ctx, q.addr, q.user)
	} else {
		x.T.Client, err = e.Identify(ctx, q.addr)
	}
	if err != nil {
		if q.addr.IsValid() && exchange.SignInPage(err) != "" { // a request of Squid's own is nobody's
			unknown = err
		}
		// Squid asks for passwords, not we. The identity of the address applies.
		if !refusedPassword(err) {
			x.Note("identify: " + err.Error())
		}
		x.T.Client.Addr = q.addr
		if q.user != "" {
			x.T.Client.User = q.user
		}
	}
	return x, "", unknown
}

// fill fills in the destination.
func fill(x *exchange.Exchange, q *question, cookie string) error {
	raw := q.url
	if q.method == http.MethodConnect {
		host, port, err := net.SplitHostPort(raw)
		n, bad := strconv.ParseUint(port, 10, 16)
		clean, ok := exchange.CleanHost([]byte(host))
		if ip, no := netip.ParseAddr(host); no == nil {
			clean, ok = ip.Unmap().String(), true
		}
		if err != nil || bad != nil || !ok {
			return errors.New("not the host and port of a tunnel")
		}
		x.Q = message.Request{Method: q.method, Form: message.Authority, Host: []byte(host), Port: uint16(n), Proto: 11, Fields: x.Q.Fields[:0]}
		x.T.Host, x.T.Port, x.T.Proto, x.T.Last = clean, uint16(n), filter.TLS, filter.Name
		x.T.URL = net.JoinHostPort(clean, port)
		return nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return errors.New("not an absolute URL")
	}
	authority := rest[:min(len(rest), strings.IndexAny(rest+"/", "/?#"))]
	rest = rest[len(authority):]
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if s := strings.ToLower(scheme); s != "http" && s != "https" {
		scheme = "http" // the host and path are judged as if the scheme were http
	}
	raw, _, _ = strings.Cut(scheme+"://"+authority+rest, "#")
	head := q.method + " " + raw + " HTTP/1.1\r\nHost: " + authority + "\r\n"
	if cookie != "" {
		head += "Cookie: " + cookie + "\r\n"
	}
	head += "\r\n"
	if err := message.NewReader(strings.NewReader(head), len(head)+1, len(head)+1).ReadRequest(&x.Q); err != nil {
		return err
	}
	x.Q.Body, x.Q.Length = nil, message.None
	x.T.Last = filter.Request
	usual := uint16(80)
	if strings.EqualFold(scheme, "https") {
		usual = 443
	}
	if x.T.Port = x.Q.Port; x.T.Port == 0 {
		x.T.Port = usual
	}
	if ip, err := netip.ParseAddr(string(x.Q.Host)); err == nil {
		x.T.Host = ip.Unmap().String()
	} else if x.T.Host, ok = exchange.CleanHost(x.Q.Host); !ok {
		return errors.New("it has no valid host name")
	}
	x.T.URL = urlOf(x, x.Q.Path)
	return nil
}

// urlOf returns the URL of a request with a path.
func urlOf(x *exchange.Exchange, path []byte) string {
	host, usual := x.T.Host, uint16(80)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if x.Q.Scheme == "https" {
		usual = 443
	}
	if x.T.Port != usual {
		host += ":" + strconv.Itoa(int(x.T.Port))
	}
	if string(path) == "*" {
		path = nil
	}
	return x.Q.Scheme + "://" + host + string(path)
}

// changed returns the URL that replaces that of the request, or "". Squid
// cannot be given other changes of a policy, to fields and addresses.
func changed(x *exchange.Exchange) string {
	if x.T.Proto == filter.TLS {
		return ""
	}
	var out message.Request
	x.MakeOutgoing(&out)
	for _, edit := range x.Edits {
		switch edit.Kind {
		case filter.SetHeader:
			x.Note("Squid sends the request: the field " + edit.Name + " is not set")
		case filter.DialHost:
			x.Note("Squid decides where to connect: " + edit.Value + " is not used")
		}
	}
	if bytes.Equal(out.Path, x.Q.Path) {
		return ""
	}
	return urlOf(x, out.Path)
}

// record records a transaction.
func (s *Server) record(x *exchange.Exchange) {
	x.T.Duration = time.Since(x.T.Start)
	x.End()
	s.done(&x.T)
}

// acl answers a line of external_acl_type: address, user, method, URL, and the
// arguments of the acl. With arguments, which are categories, it matches
// requests in one of them. Without, it matches requests that the policy passes.
func (s *Server) acl(ctx context.Context, e *Engine, line string) []byte {
	all := strings.Fields(line)
	at := 3 // index of the URL
	for at < len(all)-1 && !isTarget(all[at-1], all[at]) {
		at++ // %un is not escaped: it may have blanks
	}
	if len(all) < 4 || !isTarget(all[at-1], all[at]) {
		return broken(`the format is "%>a %#un %>rm %#URI"`)
	}
	q := question{user: fieldOrEmpty(unescape(strings.Join(all[1:at-1], " "))), method: all[at-1], url: urlOfWord(all[at])}
	q.addr, _ = netip.ParseAddr(unescape(all[0])) // "-": the request is Squid's own
	var wanted []string
	for _, w := range all[at+1:] {
		if w = fieldOrEmpty(unescape(w)); w != "" { // "-": the acl has no arguments
			wanted = append(wanted, w)
		}
	}
	for _, w := range wanted {
		if !e.categories[w] {
			s.failed.Add(1)
			return broken(fmt.Sprintf("no check of the settings reports the category %q", w))
		}
	}
	x, why, unknown := s.judge(ctx, e, &q)
	if x == nil {
		return broken(why)
	}
	if len(wanted) > 0 {
		defer x.End()
		return categorise(ctx, e, x, wanted)
	}
	switch {
	case unknown == nil:
	case exchange.AtSignIn(unknown, &x.T): // else nobody could sign in
		s.letSignIn(x)
		return []byte("OK")
	case !exchange.MayReach(unknown, x.T.Host):
		a := appendPair([]byte("ERR"), "message", "sign in first, at "+s.refuseUnknown(x, unknown), false)
		return appendPair(a, "log", x.T.ID, false)
	}
	pass := x.JudgeHead(ctx)
	reason := x.T.Verdict.Reason
	s.record(x)
	if pass {
		return []byte("OK")
	}
	s.refusals.Add(1)
	policyName := reason.Policy
	if reason.Rule != "" {
		policyName += ": " + reason.Rule
	}
	if c := reason.Finding.Category; c != "" {
		policyName += " (" + c + ")"
	}
	a := appendPair([]byte("ERR"), "message", policyName, false)
	return appendPair(a, "log", x.T.ID, false)
}

// isTarget reports whether two words are a method and its target.
func isTarget(method, url string) bool {
	url = unescape(url)
	return method == http.MethodConnect && strings.Contains(url, ":") || method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" && strings.Contains(url, "://")
}

// categorise reports whether the cheap checks find one of the wanted categories.
func categorise(ctx context.Context, e *Engine, x *exchange.Exchange, wanted []string) []byte {
	var found []filter.Finding
	var err error
	for _, c := range e.Checks {
		for stage := filter.Name; stage <= min(filter.Request, x.T.Last); stage++ {
			if stage == filter.RequestBody || c.Cost() != filter.Cheap || !c.Wants(&x.T, stage) {
				continue
			}
			if found, err = c.Find(ctx, &x.T, stage, found); err != nil {
				return broken(c.Name() + ": " + err.Error())
			}
		}
	}
	for _, f := range found {
		if slices.Contains(wanted, f.Category) {
			a := appendPair([]byte("OK"), "tag", f.Category, false)
			return appendPair(a, "message", f.Evidence, false)
		}
	}
	return []byte("ERR")
}

// auth answers a line of auth_param basic: name, password, and the address if
// key_extras includes it.
func (s *Server) auth(ctx context.Context, e *Engine, line string) []byte {
	all := strings.Split(line, " ") // a password may be empty
	if len(all) < 2 {
		return appendPair([]byte("ERR"), "message", "no password was sent", false)
	}
	var addr netip.Addr
	if len(all) > 2 {
		addr, _ = netip.ParseAddr(strings.Trim(unescape(all[2]), `"`)) // without an address, wrong passwords are counted by name
	}
	c, err := e.Verify(ctx, addr, unescape(all[0]), unescape(all[1]))
	if err == nil {
		a := []byte("OK")
		for _, g := range c.Groups {
			a = appendPair(a, "group", g, false)
		}
		return a
	}
	s.refusals.Add(1)
	if refusedPassword(err) {
		return appendPair([]byte("ERR"), "message", "wrong name or password", false)
	}
	s.failed.Add(1)
	return broken(err.Error())
}

// refusedPassword reports whether an error means a wrong name or password, and
// not a server that cannot decide.
func refusedPassword(err error) bool {
	r, ok := errors.AsType[interface {
		error
		Challenges() []string
	}](err)
	return ok && r != nil
}

// group answers a line of external_acl_type: user, the address if the format
// includes it, and the groups of the acl.
func (s *Server) group(ctx context.Context, e *Engine, line string) []byte {
	all := words(line)
	if len(all) == 0 {
		return broken(`the format is "%#un" or "%#un %>a"`)
	}
	user, wanted := fieldOrEmpty(all[0]), all[1:]
	var addr netip.Addr
	for i, w := range all {
		if a, err := netip.ParseAddr(w); err == nil && i > 0 { // %un is not escaped: it may have blanks
			addr, user, wanted = a, fieldOrEmpty(strings.Join(all[:i], " ")), all[i+1:]
			break
		}
	}
	for _, g := range wanted {
		if !e.HasGroup(g) {
			s.failed.Add(1)
			return broken(fmt.Sprintf("there is no group %q; name its members under identity: groups", g))
		}
	}
	var c filter.Client
	var err error
	switch {
	case user != "":
		c, err = e.Member(ctx, addr, user)
	case addr.IsValid():
		if c, err = e.Identify(ctx, addr); err != nil && refusedPassword(err) {
			err = nil // use the groups of the address
		}
	}
	if err != nil {
		s.failed.Add(1)
		return broken(err.Error())
	}
	for _, g := range wanted {
		if slices.ContainsFunc(c.Groups, func(has string) bool { return strings.EqualFold(has, g) }) {
			a := appendPair([]byte("OK"), "tag", g, false)
			if user == "" && c.User != "" {
				a = appendPair(a, "user", c.User, false)
			}
			return a
		}
	}
	return []byte("ERR")
}
