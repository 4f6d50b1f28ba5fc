package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/gateway"
	"shuultuur/message"
)

const whyHelp = `
Says what the gateway would do with URL, and why: every finding with the list
or phrase file and line that gave it, and the rule that decided. Nothing is
fetched: give the page as FILE ("-" for standard input) to have its text judged
as well. Without -config the settings are those that "shuultuur run" would
take: shuultuur.yaml in this folder, or else the starter settings.

With only the FILE of a picture, what is seen in it is said: features, scores,
the nearest hash of each list with its distance, and how long each took.

With -dns, NAME is a name that a client asks the name server for, and what the
name server would answer is said too, as far as it would not have to ask others.

The gateway that runs with these settings, if there is one, is asked at its
admin address what is paused and what is left of quotas.

An https URL is judged by its host alone, as the gateway does with a tunnel it
does not look into; where the client's policy says decrypt, it is judged whole.

The exit status is 0 for pass and allow, 1 for warn, block and redirect.`

// maxPage bounds the page that why reads.
const maxPage = 64 << 20

// explanation is what "why -json" prints. Its form is stable: keys may be
// added, none is renamed or dropped.
type explanation struct {
	URL      string           `json:"url"`
	Action   string           `json:"action"`
	Policy   string           `json:"policy"`
	Rule     string           `json:"rule"`
	Stage    string           `json:"stage"` // the last one that was judged
	Findings []filter.Finding `json:"findings"`
	Settings string           `json:"settings"`          // the file that answers
	Refused  string           `json:"refused,omitempty"` // why the proxy would not connect, whatever the verdict
	Paused   string           `json:"paused,omitempty"`  // for whom the running gateway pauses filtering, and until when
	Learned  bool             `json:"learned"`
	Edits    []edit           `json:"edits,omitempty"`
	Taken    float64          `json:"taken_us"` // microseconds in the decider
	Picture  []string         `json:"picture,omitempty"`
	quotaLeft
}

// quotaLeft is what the client has left of its quotas, where a gateway that runs
// with the same settings says so.
type quotaLeft struct {
	Quotas  []filter.Balance `json:"quotas,omitempty"`
	Unknown string           `json:"quotas_unknown,omitempty"` // why they are not known
}

func leftOf(ctx context.Context, e *gateway.Engine, t *filter.Transaction) (l quotaLeft) {
	var err error
	if l.Quotas, err = e.Left(ctx, t.Verdict.Reason.Policy, &t.Client); err != nil {
		l.Unknown = err.Error()
	}
	return l
}

func (l *quotaLeft) append(b *strings.Builder) {
	for _, q := range l.Quotas {
		fmt.Fprintf(b, "  quota   %s: %s, by %s\n", q.Of, q.Text, q.By)
	}
	if l.Unknown != "" {
		fmt.Fprintf(b, "  quota   %s\n", l.Unknown)
	}
}

type edit struct {
	Kind  string `json:"kind"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value"`
}

type question struct {
	config, as, client, user, method string
	contentType, referer, agent      string
	groups                           string
	url, file                        string
	dns                              string
}

func why(ctx context.Context, e env, args []string) int {
	var q question
	var asJSON bool
	f, parse := flags(e, "why", "[flags] URL [FILE] | -dns NAME", whyHelp)
	f.StringVar(&q.config, "config", "", "settings `file` (default shuultuur.yaml, else the starter settings)")
	f.StringVar(&q.as, "as", "", "judge by this `policy`, whoever asks")
	f.StringVar(&q.client, "client", "127.0.0.1", "`address` of the client that asks")
	f.StringVar(&q.user, "user", "", "`name` of the user who asks")
	f.StringVar(&q.groups, "groups", "", "`groups` of the user, separated by commas")
	f.StringVar(&q.method, "method", "GET", "request `method`")
	f.StringVar(&q.contentType, "type", "", "media `type` of FILE (default by its name, then by its bytes); with -dns the type of record (default A)")
	f.StringVar(&q.dns, "dns", "", "ask for this `name` of the DNS")
	f.StringVar(&q.referer, "referer", "", "Referer `URL` of the request")
	f.StringVar(&q.agent, "agent", "", "User-Agent of the request")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	if status := parse(args, 0, 2); status >= 0 {
		return status
	}
	if q.dns != "" && f.NArg() == 0 {
		return q.name(ctx, e, asJSON)
	}
	if f.NArg() < 1 || f.NArg() > 2 || q.dns != "" {
		f.Usage()
		return 2
	}
	q.url, q.file = f.Arg(0), f.Arg(1)
	if f.NArg() == 1 && isPictureFile(q.url) {
		q.url, q.file = "http://localhost/"+url.PathEscape(filepath.Base(q.url)), q.url
	}
	x, err := q.ask(ctx, e)
	if err != nil {
		return fail(e, err)
	}
	return tell(e, x, x.Action, asJSON)
}

// tell prints x, and returns 0 if its action lets pass.
func tell(e env, x interface{ print(io.Writer) error }, action string, asJSON bool) int {
	var err error
	if asJSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(x)
	} else {
		err = x.print(e.stdout)
	}
	if err != nil {
		return fail(e, err)
	}
	if action == "pass" || action == "allow" {
		return 0
	}
	return 1
}

func (q question) ask(ctx context.Context, e env) (*explanation, error) {
	t, err := q.transaction()
	if err != nil {
		return nil, err
	}
	var page []byte
	if q.file != "" {
		if page, err = readPage(e, q.file); err != nil {
			return nil, err
		}
	}
	engine, closeEngine, err := explain(ctx, q.config)
	if err != nil {
		return nil, err
	}
	defer closeEngine()
	paused := engine.AskPauses(ctx)
	d, err := engine.As(q.as)
	if err != nil {
		return nil, err
	}
	if q.user == "" {
		if c, err := engine.Identify(ctx, t.Client.Addr); err == nil {
			t.Client = c
		}
	}
	if looks, ok := d.(interface {
		Decrypts(*filter.Transaction) bool
	}); ok && t.Proto == filter.TLS && looks.Decrypts(t) {
		t.Proto = filter.HTTP // the request inside is judged, too
	}
	start := time.Now()
	stage := q.judge(ctx, d, t, page)
	x := &explanation{
		URL: t.URL, Action: t.Verdict.Action.String(), Policy: t.Verdict.Reason.Policy, Rule: t.Verdict.Reason.Rule,
		Stage: stage.String(), Findings: append([]filter.Finding{}, t.Findings...), Learned: t.Verdict.Reason.Learned,
		Taken: float64(time.Since(start).Nanoseconds()) / 1000,
	}
	if q.file != "" && isPictureFile(q.file) {
		x.Picture = engine.Picture(ctx, page)
	}
	x.quotaLeft = leftOf(ctx, engine, t)
	x.Settings = cmp.Or(usualFile(q.config), "the starter settings")
	if len(paused) > 0 && t.Verdict.After > 0 {
		x.Paused = "until " + time.Now().Add(t.Verdict.After).Format(time.DateTime)
	}
	if err := engine.Reachable(t); err != nil && !t.Verdict.Final() {
		x.Refused, x.Action = err.Error(), "refused"
	}
	for _, c := range t.Verdict.Edits {
		x.Edits = append(x.Edits, edit{[...]string{"header", "query", "connect to"}[c.Kind%3], c.Name, c.Value})
	}
	return x, nil
}

// isPictureFile says whether a name is that of a file of a picture.
func isPictureFile(name string) bool {
	s, err := os.Stat(name)
	return err == nil && s.Mode().IsRegular() && strings.HasPrefix(mime.TypeByExtension(filepath.Ext(name)), "image/")
}

// judge leads t through the stages it can come to and returns the last one.
func (q question) judge(ctx context.Context, d filter.Decider, t *filter.Transaction, page []byte) filter.Stage {
	t.Last = filter.ResponseBody
	switch {
	case t.Proto == filter.TLS:
		t.Last = filter.Name
	case page == nil:
		t.Last = filter.Request
	}
	for s := filter.Name; s <= t.Last; s++ {
		switch s {
		case filter.RequestBody:
			continue
		case filter.Response:
			t.Response = q.response(page)
		case filter.ResponseBody:
			t.Body = new(content.Body)
			t.Body.Reset(t.Content(), content.Limits{})
			defer t.Body.Release()
			t.Body.Append(page)
			t.Body.Finish()
		}
		if s == filter.Response && !d.Wants(t, filter.ResponseBody) {
			t.Last = filter.Response
		}
		if v := d.Decide(ctx, t, s); v.Final() || v.Action == filter.Allow {
			return s
		}
	}
	return t.Last
}

// transaction builds what the proxy would build of a request for q.url. The
// proxy's parser reads the request, so that why accepts what the proxy does.
func (q question) transaction() (*filter.Transaction, error) {
	raw, _, _ := strings.Cut(q.url, "#") // browsers keep the fragment to themselves
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	addr, err := netip.ParseAddr(q.client)
	if err != nil {
		return nil, fmt.Errorf("-client %q is not an address", q.client)
	}
	r, err := q.request(raw)
	if err != nil {
		return nil, fmt.Errorf("%q is not an http or https URL: %w", q.url, err)
	}
	t := &filter.Transaction{
		ID: "why", Start: time.Now(), Proto: filter.HTTP,
		Client:  filter.Client{Addr: addr.Unmap(), User: q.user},
		Host:    strings.TrimSuffix(strings.ToLower(string(r.Host)), "."),
		Port:    r.Port,
		Request: r,
	}
	usual := uint16(80)
	if r.Scheme == "https" {
		t.Proto, usual = filter.TLS, 443
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
	if q.groups != "" {
		t.Client.Groups = strings.Split(q.groups, ",")
	}
	return t, nil
}

// request reads the head that a browser would send the proxy for a URL.
func (q question) request(url string) (*message.Request, error) {
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
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.method, url, host)
	for _, f := range [][2]string{{"User-Agent", q.agent}, {"Referer", q.referer}} {
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

// response makes the head that an origin would have sent with the page.
func (q question) response(page []byte) *message.Response {
	s := &message.Response{Status: 200, Proto: 11, Length: int64(len(page))}
	kind := q.contentType
	if kind == "" {
		kind = mime.TypeByExtension(filepath.Ext(q.file))
	}
	if kind != "" {
		s.Add("Content-Type", kind)
	}
	s.Add("Content-Length", strconv.Itoa(len(page)))
	return s
}

func readPage(e env, file string) ([]byte, error) {
	in := e.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the page: %w", err)
		}
		defer f.Close()
		in = f
	}
	page, err := io.ReadAll(io.LimitReader(in, maxPage+1))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	if len(page) > maxPage {
		return nil, errors.New("the page is larger than 64 MiB")
	}
	return page, nil
}

func (x *explanation) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", strings.ToUpper(x.Action), x.URL)
	policy := x.Policy
	if policy == "" {
		policy = "(no policy covers this client)"
	}
	fmt.Fprintf(&b, "  policy  %s\n", policy)
	rule := x.Rule
	if rule == "" {
		rule = "(no rule fitted)"
	}
	fmt.Fprintf(&b, "  rule    %s\n", rule)
	fmt.Fprintf(&b, "  judged  up to the %s\n", x.Stage)
	if x.Refused != "" {
		fmt.Fprintf(&b, "  refused %s\n", x.Refused)
	}
	if x.Paused != "" {
		fmt.Fprintf(&b, "  paused  %s\n", x.Paused)
	}
	fmt.Fprintf(&b, "  by      %s\n", x.Settings)
	for _, f := range x.Findings {
		score := ""
		if f.Score != 0 {
			score = " " + strconv.Itoa(f.Score)
		}
		fmt.Fprintf(&b, "  found   %s/%s%s\n", f.Check, f.Category, score)
		for part := range strings.SplitSeq(f.Evidence, "; ") {
			if part != "" {
				fmt.Fprintf(&b, "            %s\n", part)
			}
		}
	}
	for _, c := range x.Edits {
		fmt.Fprintf(&b, "  sets    %s %s %s\n", c.Kind, c.Name, c.Value)
	}
	for _, line := range x.Picture {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	x.quotaLeft.append(&b)
	fmt.Fprintf(&b, "  taken   %.0f µs\n", x.Taken)
	_, err := io.WriteString(w, b.String())
	return err
}
