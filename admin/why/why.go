// Package why answers "why?". It turns a question into the transaction that the
// proxy would make, passes it through the possible stages, and returns the
// decision and its reason. It tests the expectations of policies in the same way.
// Nothing is fetched, recorded or remembered. The caller supplies the decider.
package why

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/intercept/opening"
	"shuultuur/lib/message"
)

// Judge lets d decide t, made by [RequestOf], and explains the decision.
func Judge(ctx context.Context, d filter.Decider, t *filter.Transaction, q *Question) *Explanation {
	within := entersTunnel(d, t)
	start := time.Now()
	stage := judge(ctx, d, t, q, within)
	x := &Explanation{
		URL: t.URL, Action: t.Verdict.Action.String(), User: describeClient(&t.Client), Policy: t.Verdict.Reason.Policy, Rule: t.Verdict.Reason.Rule,
		Stage: stage.String(), Findings: append([]filter.Finding{}, t.Findings...), Learned: t.Verdict.Reason.Learned,
		Taken: float64(time.Since(start).Nanoseconds()) / 1000,
	}
	for _, c := range t.Verdict.Edits {
		x.Edits = append(x.Edits, Edit{Kind: [...]string{"header", "query", "connect to"}[c.Kind%3], Name: c.Name, Value: c.Value})
	}
	return x
}

// entersTunnel reports whether a question is about the request in a connection that d decrypts. The
// tunnel is judged by its host first.
func entersTunnel(d filter.Decider, t *filter.Transaction) bool {
	looks, ok := d.(interface {
		Decrypts(*filter.Transaction) bool
	})
	return ok && t.Proto == filter.TLS && t.Opening.Kind == string(opening.TLS) && looks.Decrypts(t)
}

// describeClient describes a client: who it is, how that is known, and its
// groups.
func describeClient(c *filter.Client) string {
	who := c.User
	if who != "" && c.Source != "" {
		who += " (known by " + c.Source + ")"
	}
	if len(c.Groups) > 0 {
		who = strings.TrimPrefix(who+", in "+strings.Join(c.Groups, ", "), ", ")
	}
	return who
}

// judge takes t through the stages that it can reach and returns the last one.
func judge(ctx context.Context, d filter.Decider, t *filter.Transaction, q *Question, within bool) filter.Stage {
	page := q.Page
	t.Last = filter.ResponseBody
	switch {
	case t.Proto == filter.TLS && !within:
		t.Last = filter.Name
	case page == nil:
		t.Last = filter.Request
	}
	for s := filter.Name; s <= t.Last; s++ {
		switch s {
		case filter.Request:
			t.Proto = filter.HTTP // a tunnel ends with its host, unless it is decrypted
		case filter.RequestBody:
			continue
		case filter.Response:
			t.Response = answered(q)
		case filter.ResponseBody:
			t.Body = new(content.Body)
			t.Body.Reset(t.Content(), content.Limits{})
			defer t.Body.Release()
			t.Body.Append(page)
			t.Body.Finish()
			var end context.CancelFunc
			ctx, end = context.WithTimeout(ctx, filter.JudgeTime(int64(len(page)))) // as the gateway has
			defer end()
			t.Body.Bound(func() bool { return ctx.Err() != nil })
		}
		if s == filter.Response && !d.Wants(t, filter.ResponseBody) {
			t.Last = filter.Response
		}
		if d.Decide(ctx, t, s); t.Verdict.Final() || t.Verdict.Action == filter.Allow {
			return s
		}
	}
	return t.Last
}

// RequestOf turns a question into the request that the proxy would see for q.URL. The proxy's
// parser reads the request, so that why accepts what the proxy does.
func RequestOf(q *Question) (*filter.Transaction, error) {
	raw, _, _ := strings.Cut(q.URL, "#") // browsers keep the fragment to themselves
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	tunnelled, rest := tunnelIn(raw)
	if tunnelled != "" {
		raw = "https://" + rest
	}
	r, err := requestFor(q, raw)
	if err != nil {
		return nil, &web.BadChange{Err: fmt.Errorf("%q is not an http or https URL, nor one of a tunnel, such as ssh://HOST:443: %w", q.URL, err)}
	}
	t := &filter.Transaction{
		ID: "why", Start: time.Now(), Proto: filter.HTTP,
		Client:  filter.Client{Addr: q.Client, User: q.User, Groups: q.Groups},
		Host:    strings.TrimSuffix(strings.ToLower(string(r.Host)), "."),
		Port:    r.Port,
		Request: r,
	}
	usual := uint16(80)
	if r.Scheme == "https" {
		t.Proto, usual = filter.TLS, 443
		t.Opening = filter.Opening{Kind: cmp.Or(tunnelled, string(opening.TLS)), Says: "as asked"}
	}
	if t.Port == 0 {
		t.Port = usual
	}
	if a, err := netip.ParseAddr(t.Host); err == nil {
		t.Host = a.Unmap().String()
	}
	host := t.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if t.Port != usual {
		host += ":" + strconv.Itoa(int(t.Port))
	}
	t.URL = r.Scheme + "://" + host + string(r.Path)
	if tunnelled != "" {
		t.URL = tunnelled + "://" + host
	}
	return t, nil
}

// tunnelIn returns what is spoken in the tunnel that a URL asks about by its scheme, such as
// "ssh://HOST:443"; "" if it is an address of the web.
func tunnelIn(url string) (kind, rest string) {
	scheme, rest, _ := strings.Cut(url, "://")
	if k := opening.Kind(strings.ToLower(scheme)); k != opening.HTTP && slices.Contains(opening.Kinds[:], k) {
		return string(k), rest
	}
	return "", url
}

// requestFor reads the head that a browser would send the proxy for a URL.
func requestFor(q *Question, url string) (*message.Request, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	host := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host = rest[:i]
	}
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("its scheme is %q", scheme)
	}
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", cmp.Or(q.Method, "GET"), url, host)
	for _, f := range [][2]string{{"User-Agent", q.Agent}, {"Referer", q.Referer}} {
		if f[1] != "" {
			fmt.Fprintf(&head, "%s: %s\r\n", f[0], f[1])
		}
	}
	head.WriteString("\r\n")
	r := new(message.Request)
	if err := message.NewReader(strings.NewReader(head.String()), head.Len()+1, head.Len()+1).ReadRequest(r); err != nil {
		return nil, err
	}
	return r, nil
}

// answered makes the head that an origin would have sent with the page.
func answered(q *Question) *message.Response {
	s := &message.Response{Status: 200, Proto: 11, Length: int64(len(q.Page))}
	if q.Type != "" {
		s.Add("Content-Type", q.Type)
	}
	s.Add("Content-Length", strconv.Itoa(len(q.Page)))
	return s
}
