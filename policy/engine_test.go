package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/policy/preset"
	"shuultuur/policy/schedule"
	"shuultuur/test/race"
)

// A fake is a check that reports given findings, by stage.
type fake struct {
	name   string
	cost   filter.Cost
	known  []filter.Category
	finds  map[filter.Stage][]filter.Finding
	wants  []filter.Stage // in addition to the stages of finds
	err    map[filter.Stage]error
	panics bool
	html   bool // wants a body only of text/html, as checks of text do
	asked  *[]string
}

func (f *fake) Name() string                  { return f.name }
func (f *fake) Cost() filter.Cost             { return f.cost }
func (f *fake) Categories() []filter.Category { return f.known }

func (f *fake) Wants(t *filter.Transaction, s filter.Stage) bool {
	if s == filter.ResponseBody && f.html && t.Response != nil && string(t.Response.Get("Content-Type")) != "text/html" {
		return false
	}
	for _, w := range f.wants {
		if w == s {
			return true
		}
	}
	return f.finds[s] != nil || f.err[s] != nil
}

func (f *fake) Find(_ context.Context, _ *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if f.asked != nil {
		*f.asked = append(*f.asked, f.name+"@"+s.String())
	}
	if f.panics {
		panic("it broke")
	}
	return append(dst, f.finds[s]...), f.err[s]
}

func list(finds map[filter.Stage][]string) *fake {
	f := &fake{name: "category", finds: map[filter.Stage][]filter.Finding{}, wants: []filter.Stage{filter.Name, filter.Request}}
	for _, c := range []string{"adult", "bank", "grey", "Own"} {
		f.known = append(f.known, filter.Category{Name: c})
	}
	for s, cs := range finds {
		for _, c := range cs {
			f.finds[s] = append(f.finds[s], filter.Finding{Check: "category", Category: c, Evidence: c + ".list:1"})
		}
	}
	return f
}

func phrases(score int, others ...string) *fake {
	f := &fake{name: "phrase", html: true, known: []filter.Category{
		{Name: "phrase", Scored: true}, {Name: "adult", Scored: true}, {Name: "exception"}, {Name: "banned"},
	}}
	fs := []filter.Finding{{Check: "phrase", Category: "phrase", Score: score, Evidence: "w.list:7"}}
	for _, o := range others {
		fs = append(fs, filter.Finding{Check: "phrase", Category: o})
	}
	f.finds = map[filter.Stage][]filter.Finding{filter.ResponseBody: fs}
	return f
}

func newEngine(t testing.TB, rules []Rule, checks ...filter.Check) *Engine {
	t.Helper()
	return newEngineOf(t, Config{{Name: "p", Rules: rules}}, Parts{}, checks...)
}

func newEngineOf(t testing.TB, cfg Config, parts Parts, checks ...filter.Check) *Engine {
	t.Helper()
	e, err := New(cfg, checks, parts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// page is an exchange of which everything is known; judge shows it to an engine stage by stage,
// as the proxy does.
type page struct {
	method, host, path string
	request, response  []string // names and values
	upload             bool
	tunnel             bool
	client             filter.Client
	start              time.Time
	body               string       // "" is a page
	from               message.Body // the response's body
}

func fields(nv []string) (f message.Fields) {
	for i := 0; i+1 < len(nv); i += 2 {
		f.Add(nv[i], nv[i+1])
	}
	return f
}

// judge goes through the stages, and also returns the stage that ended it.
func (p page) judge(t testing.TB, e filter.Decider) (*filter.Transaction, filter.Stage) {
	t.Helper()
	tr := &filter.Transaction{ID: "id1", Start: p.start, Client: p.client, Host: p.host, Last: filter.ResponseBody}
	if p.host == "" {
		tr.Host = "example.com"
	}
	ctx := t.Context()
	if p.tunnel {
		tr.Proto, tr.Last = filter.TLS, filter.Name
		e.Decide(ctx, tr, filter.Name)
		return tr, filter.Name
	}
	path := p.path
	if path == "" {
		path = "/"
	}
	method := p.method
	if method == "" {
		method = "GET"
	}
	tr.Request = &message.Request{Method: method, Path: []byte(path), Fields: fields(p.request)}
	tr.URL = "http://" + tr.Host + path
	if p.upload {
		tr.Request.Length = 10
	}
	over := func() bool { return tr.Verdict.Action != filter.Pass }
	if e.Decide(ctx, tr, filter.Name); over() {
		return tr, filter.Name
	}
	if e.Decide(ctx, tr, filter.Request); over() {
		return tr, filter.Request
	}
	if p.upload && e.Wants(tr, filter.RequestBody) {
		if e.Decide(ctx, tr, filter.RequestBody); over() {
			return tr, filter.RequestBody
		}
	}
	response := p.response
	if response == nil {
		response = []string{"Content-Type", "text/html"}
	}
	tr.Response = &message.Response{Status: 200, Fields: fields(response), Body: p.from}
	hold := e.Wants(tr, filter.ResponseBody)
	if !hold {
		tr.Last = filter.Response
	}
	if e.Decide(ctx, tr, filter.Response); over() || !hold {
		return tr, filter.Response
	}
	tr.Body = new(content.Body)
	tr.Body.Reset(content.Describe(string(tr.Response.Get("Content-Type")), ""), content.Limits{})
	if p.body == "" {
		p.body = "<html>a page"
	}
	tr.Body.Append([]byte(p.body))
	tr.Body.Finish()
	e.Decide(ctx, tr, filter.ResponseBody)
	return tr, filter.ResponseBody
}

func over(n int) *int { return &n }

func cats(names ...string) []string { return names }

var (
	banks      = Rule{Name: "banks", Action: "allow", Category: cats("bank")}
	adult      = Rule{Name: "adult", Action: "block", Category: cats("adult", "own")}
	greyAdult  = Rule{Name: "adult", Action: "block", Category: cats("adult"), Unless: cats("grey")}
	words      = Rule{Name: "words", Action: "block", Category: cats("phrase"), Over: over(50)}
	warnWords  = Rule{Name: "words", Action: "warn", Category: cats("phrase"), Over: over(50)}
	exceptions = Rule{Name: "exceptions", Action: "allow", Category: cats("phrase/exception")}
	exe        = Rule{Name: "exe", Action: "block", Extension: []string{"exe"}}
)

func TestTheFirstRuleThatFitsWinsAcrossStages(t *testing.T) {
	at := func(s filter.Stage, cs ...string) map[filter.Stage][]string { return map[filter.Stage][]string{s: cs} }
	tests := map[string]struct {
		rules []Rule
		list  map[filter.Stage][]string
		score int
		more  []string // other findings of the phrase check
		page  page
		want  string // action rule stage
	}{
		"nothing fits":      {[]Rule{banks, adult, words}, nil, 50, nil, page{}, "pass  response-body"},
		"over is more than": {[]Rule{banks, adult, words}, nil, 51, nil, page{}, "block words response-body"},
		"a body nobody would look at is not wanted": {[]Rule{banks, adult, words}, nil, 99, nil, page{response: []string{"Content-Type", "image/png"}}, "pass  response"},
		"no rule asks for the body":                 {[]Rule{banks, adult}, nil, 99, nil, page{}, "pass  response"},
		"a host on a list":                          {[]Rule{words, adult}, at(filter.Name, "adult"), 99, nil, page{}, "block adult name"},
		"a URL on a list":                           {[]Rule{words, adult}, at(filter.Request, "Own"), 99, nil, page{}, "block adult request"},
		"a tunnel is judged by its host":            {[]Rule{exceptions, words, adult}, at(filter.Name, "adult"), 0, nil, page{tunnel: true}, "block adult name"},
		"an exception in front looks no further":    {[]Rule{banks, adult, words}, at(filter.Name, "adult", "bank"), 99, nil, page{}, "allow banks name"},
		"a block waits for an open exception":       {[]Rule{banks, adult}, map[filter.Stage][]string{filter.Name: {"adult"}, filter.Request: {"bank"}}, 0, nil, page{}, "allow banks request"},
		"and fits when that did not":                {[]Rule{banks, adult}, at(filter.Name, "adult"), 0, nil, page{}, "block adult request"},
		"a block waits for the body if it must":     {[]Rule{exceptions, adult}, at(filter.Name, "adult"), 0, cats("exception"), page{}, "allow exceptions response-body"},
		"and is done where there is none to see":    {[]Rule{exceptions, adult}, at(filter.Name, "adult"), 0, cats("exception"), page{response: []string{"Content-Type", "image/png"}}, "block adult response"},
		"a block does not wait for open blocks":     {[]Rule{words, exe, adult}, at(filter.Name, "adult"), 0, nil, page{}, "block adult name"},
		"an allow waits for an open block":          {[]Rule{words, banks}, at(filter.Name, "bank"), 51, nil, page{}, "block words response-body"},
		"and holds when that did not fit":           {[]Rule{words, banks}, at(filter.Name, "bank"), 50, nil, page{}, "allow banks response-body"},
		"a block waits for an open warning":         {[]Rule{warnWords, adult}, at(filter.Name, "adult"), 51, nil, page{}, "warn words response-body"},
		"a warning waits for its cookie":            {[]Rule{{Name: "w", Action: "warn", Category: cats("adult")}}, at(filter.Name, "adult"), 0, nil, page{}, "warn w request"},
		"but not in a tunnel":                       {[]Rule{{Name: "w", Action: "warn", Category: cats("adult")}}, at(filter.Name, "adult"), 0, nil, page{tunnel: true}, "warn w name"},
		"grey passes the list":                      {[]Rule{greyAdult, words}, at(filter.Name, "adult", "grey"), 50, nil, page{}, "pass  response-body"},
		"grey is still scanned":                     {[]Rule{greyAdult, words}, at(filter.Name, "adult", "grey"), 51, nil, page{}, "block words response-body"},
		"a block waits for what may keep it off":    {[]Rule{greyAdult}, map[filter.Stage][]string{filter.Name: {"adult"}, filter.Request: {"grey"}}, 0, nil, page{}, "pass  response"},
		"the category of one check only":            {[]Rule{{Name: "a", Action: "block", Category: cats("phrase/adult"), Over: over(0)}}, at(filter.Name, "adult"), 0, nil, page{}, "pass  response-body"},
		"of any check":                              {[]Rule{{Name: "a", Action: "block", Category: cats("adult")}}, at(filter.Name, "adult"), 0, nil, page{}, "block a name"},
		"a score without limit does not count":      {[]Rule{{Name: "a", Action: "block", Category: cats("adult")}}, nil, 0, cats("adult"), page{}, "pass  response"},
		"a limit is only for scores":                {[]Rule{{Name: "a", Action: "block", Category: cats("adult"), Over: over(9)}}, at(filter.Name, "adult"), 0, nil, page{}, "block a name"},
		"a rule without conditions fits":            {[]Rule{banks, {Name: "rest", Action: "block"}}, nil, 0, nil, page{}, "block rest request"},
		"which is the default when first":           {[]Rule{{Name: "all", Action: "allow"}, adult}, at(filter.Name, "adult"), 0, nil, page{}, "allow all name"},
		"an extension may come late":                {[]Rule{exe}, nil, 0, nil, page{response: []string{"Content-Disposition", `attachment; filename="a.EXE"`}}, "block exe response"},
		"an allow waits for that":                   {[]Rule{exe, banks}, at(filter.Name, "bank"), 0, nil, page{response: []string{"Content-Disposition", `attachment; filename="a.EXE"`}}, "block exe response"},
		"an upload of a list's category":            {[]Rule{{Name: "up", Action: "block", Category: cats("grey"), Method: []string{"POST"}}}, at(filter.RequestBody, "grey"), 0, nil, page{method: "POST", upload: true}, "block up request-body"},
		"an upload that cannot matter":              {[]Rule{{Name: "up", Action: "block", Category: cats("grey"), Method: []string{"PUT"}}}, at(filter.RequestBody, "grey"), 0, nil, page{method: "POST", upload: true}, "pass  response"},
		"a type is known by the body if must be":    {[]Rule{{Name: "type", Action: "block", Type: []string{"text/html"}}}, nil, 0, nil, page{response: []string{"X", "y"}}, "block type response-body"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, test.rules, list(test.list), phrases(test.score, test.more...))
			tr, s := test.page.judge(t, e)
			got := fmt.Sprintf("%v %s %v", tr.Verdict.Action, tr.Verdict.Reason.Rule, s)
			if got != test.want {
				t.Errorf("verdict is %q, want %q; findings %v", got, test.want, tr.Findings)
			}
			if tr.Verdict.Reason.Policy != "p" {
				t.Errorf("judged by policy %q, want p", tr.Verdict.Reason.Policy)
			}
		})
	}
}

// The order of e2guardian 5: local lists before main lists, in each
// semi-exception, exception, grey, banned; then the scan.
func TestTheOrderOfE2guardianCanBeExpressed(t *testing.T) {
	names := []string{"localsemi", "localexception", "localgrey", "localbanned", "semi", "exception", "grey", "banned"}
	rules := []Rule{
		{Name: "localexception", Action: "allow", Category: cats("localexception"), Unless: cats("localsemi")},
		{Name: "localbanned", Action: "block", Category: cats("localbanned"), Unless: cats("localsemi", "localgrey")},
		{Name: "exception", Action: "allow", Category: cats("exception"), Unless: cats("localsemi", "localgrey", "semi")},
		{Name: "banned", Action: "block", Category: cats("banned"), Unless: cats("localsemi", "localgrey", "semi", "grey")},
		{Name: "words", Action: "block", Category: cats("phrase/phrase"), Over: over(50)},
	}
	tests := []struct{ in, want string }{
		{"", "block words"}, // everything else is scanned
		{"banned", "block banned"},
		{"banned grey", "block words"},
		{"banned semi", "block words"},
		{"banned exception", "allow exception"},
		{"banned exception semi", "block words"},
		{"banned grey exception", "allow exception"},
		{"localbanned exception", "block localbanned"},
		{"localgrey localbanned", "block words"},
		{"localgrey banned", "block words"},
		{"localgrey exception", "block words"},
		{"localexception localbanned", "allow localexception"},
		{"localexception banned", "allow localexception"},
		{"localsemi localexception", "block words"},
		{"localsemi localbanned banned", "block words"},
	}
	for _, test := range tests {
		t.Run(test.in, func(t *testing.T) {
			c := list(map[filter.Stage][]string{filter.Name: strings.Fields(test.in)})
			c.known = nil
			for _, n := range names {
				c.known = append(c.known, filter.Category{Name: n})
			}
			p := phrases(99)
			p.known = []filter.Category{{Name: "phrase", Scored: true}}
			tr, _ := page{}.judge(t, newEngine(t, rules, c, p))
			if got := fmt.Sprintf("%v %s", tr.Verdict.Action, tr.Verdict.Reason.Rule); got != test.want {
				t.Errorf("verdict is %q, want %q", got, test.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	tests := map[string]struct {
		rule Rule
		page page
		want bool
	}{
		"host":                                {Rule{Host: []string{"Example.com."}}, page{}, true},
		"host below":                          {Rule{Host: []string{"example.com"}}, page{host: "a.b.example.com"}, true},
		"host that only ends so":              {Rule{Host: []string{"example.com"}}, page{host: "notexample.com"}, false},
		"host above":                          {Rule{Host: []string{"www.example.com"}}, page{}, false},
		"host by top level":                   {Rule{Host: []string{"com"}}, page{}, true},
		"any host":                            {Rule{Host: []string{"*"}}, page{}, true},
		"host by IPv6 address":                {Rule{Host: []string{"[2001:DB8::1]"}}, page{host: "2001:db8::1"}, true},
		"url":                                 {Rule{URL: []string{`^example\.com/ADS?/`}}, page{path: "/ads/x"}, true},
		"url in capitals":                     {Rule{URL: []string{`/ads/`}}, page{path: "/ADS/x"}, true},
		"url coded":                           {Rule{URL: []string{`/ads/`}}, page{path: "/%61d%73/x"}, true},
		"url with dots":                       {Rule{URL: []string{`com/ads/`}}, page{path: "/x/..//./ads/"}, true},
		"url with query":                      {Rule{URL: []string{`\?id=7$`}}, page{path: "/a?ID=7"}, true},
		"url, a coded question mark":          {Rule{Extension: []string{"exe"}}, page{path: "/a%3F.exe"}, true},
		"url of two":                          {Rule{URL: []string{`nothing`, `ex.mple`}}, page{}, true},
		"url does not":                        {Rule{URL: []string{`/ads/`}}, page{path: "/lads"}, false},
		"url with the Kelvin sign":            {Rule{URL: []string{`/kino`}}, page{path: "/%E2%84%AAino"}, true},
		"url in a tunnel":                     {Rule{URL: []string{`.`}}, page{tunnel: true}, false},
		"extension":                           {Rule{Extension: []string{".exe"}}, page{path: "/a.EXE?v=1"}, true},
		"extension of two parts":              {Rule{Extension: []string{"tar.gz"}}, page{path: "/a.tar.gz"}, true},
		"extension in the query":              {Rule{Extension: []string{"exe"}}, page{path: "/a?x=b.exe"}, false},
		"extension before a parameter":        {Rule{Extension: []string{"exe"}}, page{path: "/a.exe;v=1"}, true},
		"extension coded":                     {Rule{Extension: []string{"exe"}}, page{path: "/a%2eex%65"}, true},
		"extension not last":                  {Rule{Extension: []string{"exe"}}, page{path: "/a.exe.txt"}, false},
		"extension of the host":               {Rule{Extension: []string{"com"}}, page{}, false},
		"extension of a download":             {Rule{Extension: []string{"exe"}}, page{response: []string{"Content-Disposition", "attachment; filename=a.exe"}}, true},
		"extension of a program by its type":  {Rule{Extension: []string{"exe"}}, page{path: "/a.txt", response: []string{"Content-Type", "application/x-msdownload"}}, true},
		"extension of an archive by its type": {Rule{Extension: []string{"zip"}}, page{path: "/a", response: []string{"Content-Type", "application/zip"}}, true},
		"extension of another type":           {Rule{Extension: []string{"exe"}}, page{path: "/a", response: []string{"Content-Type", "image/png"}}, false},
		"extension of a coded download":       {Rule{Extension: []string{"exe"}}, page{response: []string{"Content-Disposition", `attachment; filename="a.txt"; filename*=UTF-8''a%2eexe`}}, true},
		"extension of a quoted download":      {Rule{Extension: []string{"exe"}}, page{response: []string{"Content-Disposition", `attachment; filename="a;b.exe"`}}, true},
		"type":                                {Rule{Type: []string{"text/html"}}, page{response: []string{"Content-Type", "Text/HTML; charset=x"}}, true},
		"type by its first part":              {Rule{Type: []string{"image/*"}}, page{response: []string{"Content-Type", "image/png"}}, true},
		"type that only begins so":            {Rule{Type: []string{"text/htm"}}, page{}, false},
		"type and extension":                  {Rule{Type: []string{"text/html"}, Extension: []string{"exe"}}, page{path: "/a.exe"}, true},
		"type but not extension":              {Rule{Type: []string{"text/html"}, Extension: []string{"exe"}}, page{}, false},
		"header":                              {Rule{Header: map[string]string{"x-app": "^tool$"}}, page{request: []string{"X-App", "Tool"}}, true},
		"header, the second of two":           {Rule{Header: map[string]string{"x-app": "^tool$"}}, page{request: []string{"X-App", "no", "x-app", "tool"}}, true},
		"every header":                        {Rule{Header: map[string]string{"a": "1", "b": "2"}}, page{request: []string{"A", "1"}}, false},
		"agent":                               {Rule{Agent: []string{"curl/", "wget"}}, page{request: []string{"User-Agent", "Wget/1.2"}}, true},
		"no agent":                            {Rule{Agent: []string{"^$"}}, page{}, true},
		"referer":                             {Rule{Referer: []string{"example.org"}}, page{request: []string{"Referer", "https://u@WWW.Example.org:8/x"}}, true},
		"referer in the path":                 {Rule{Referer: []string{"example.org"}}, page{request: []string{"Referer", "https://evil.test/example.org"}}, false},
		"referer as a user name":              {Rule{Referer: []string{"example.org"}}, page{request: []string{"Referer", "https://example.org@evil.test/"}}, false},
		"any referer":                         {Rule{Referer: []string{"*"}}, page{request: []string{"Referer", "http://x/"}}, true},
		"no referer":                          {Rule{Referer: []string{"*"}}, page{}, false},
		"method":                              {Rule{Method: []string{"POST", "PUT"}}, page{method: "PUT"}, true},
		"another method":                      {Rule{Method: []string{"POST"}}, page{}, false},
		"search":                              {Rule{Search: []string{"Böse Wörter"}}, page{host: "www.google.co.uk", path: "/search?x=1&q=sehr+b%C3%B6se,++W%C3%96RTER!"}, true},
		"search, a part of a word":            {Rule{Search: []string{"sex"}}, page{host: "www.bing.com", path: "/search?q=essex"}, false},
		"search elsewhere":                    {Rule{Search: []string{"sex"}}, page{path: "/search?q=sex"}, false},
		"search in another parameter":         {Rule{Search: []string{"sex"}}, page{host: "yandex.ru", path: "/search?q=sex"}, false},
		"search at a host that looks so":      {Rule{Search: []string{"sex"}}, page{host: "google.com.evil.com", path: "/search?q=sex"}, false},
		"host by address through NAT64":       {Rule{Host: []string{"192.0.2.1"}}, page{host: "64:ff9b::c000:201"}, true},
		"host by integer":                     {Rule{Host: []string{"3221225985"}}, page{host: "192.0.2.1"}, true},
		"host in Unicode":                     {Rule{Host: []string{"b\u00fccher.example"}}, page{host: "www.xn--bcher-kva.example"}, true},
		"all of host, method and url":         {Rule{Host: []string{"example.com"}, Method: []string{"GET"}, URL: []string{"/x"}}, page{path: "/x"}, true},
		"all but one":                         {Rule{Host: []string{"example.com"}, Method: []string{"GET"}, URL: []string{"/y"}}, page{path: "/x"}, false},
		"category and host":                   {Rule{Host: []string{"example.com"}, Category: cats("adult")}, page{}, true},
		"category on another host":            {Rule{Host: []string{"example.net"}, Category: cats("adult")}, page{}, false},
		"schedule":                            {Rule{Schedule: schedule.Schedule{{Hours: "12:00-13:00", Zone: "UTC"}}}, page{start: time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC)}, true},
		"schedule over":                       {Rule{Schedule: schedule.Schedule{{Hours: "12:00-13:00", Zone: "UTC"}}}, page{start: time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)}, false},
		"redirect does not lead to itself":    {Rule{Action: "redirect", To: "http://example.com/blocked"}, page{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.rule.Name = "r"
			if test.rule.Action == "" {
				test.rule.Action = "block"
			}
			e := newEngine(t, []Rule{test.rule}, list(map[filter.Stage][]string{filter.Name: {"adult"}}))
			tr, _ := test.page.judge(t, e)
			if got := tr.Verdict.Final(); got != test.want {
				t.Errorf("the rule matches: %v, want %v", got, test.want)
			}
		})
	}
}

func TestTheFirstPolicyThatCoversTheClient(t *testing.T) {
	network := func(ss ...string) (ns []Network) {
		for _, s := range ss {
			var n Network
			if err := n.UnmarshalText([]byte(s)); err != nil {
				t.Fatal(err)
			}
			ns = append(ns, n)
		}
		return ns
	}
	cfg := Config{
		{Name: "lab", Networks: network("10.1.5.0/24", "2001:db8::/32"), Groups: []string{"pupils", "guests"}},
		{Name: "night", Networks: network("10.1.0.0/16"), Schedule: schedule.Schedule{{Hours: "21:00-06:00", Zone: "UTC"}}},
		{Name: "anna", Users: []string{"anna"}},
		{Name: "house", Networks: network("10.0.0.0/8", "10.1.5.7")},
	}
	e := newEngineOf(t, cfg, Parts{})
	noon, night := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		addr   string
		user   string
		groups []string
		now    time.Time
		want   string
	}{
		"network and group":             {"10.1.5.1", "", []string{"x", "guests"}, noon, "lab"},
		"network without group":         {"10.1.5.1", "", []string{"x"}, noon, "house"},
		"the same at night":             {"10.1.5.1", "", nil, night, "night"},
		"group in another network":      {"10.1.6.1", "", []string{"pupils"}, noon, "house"},
		"IPv6":                          {"2001:db8::1", "", []string{"pupils"}, noon, "lab"},
		"IPv4 in IPv6":                  {"::ffff:10.9.9.9", "", nil, noon, "house"},
		"a user anywhere":               {"192.0.2.1", "anna", nil, noon, "anna"},
		"a user before a later network": {"10.1.5.7", "anna", nil, noon, "anna"},
		"an address within two":         {"10.1.5.7", "", []string{"pupils"}, noon, "lab"},
		"nobody":                        {"192.0.2.1", "berta", []string{"pupils"}, noon, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := filter.Client{Addr: netip.MustParseAddr(test.addr), User: test.user, Groups: test.groups}
			if got := policyName(e, c, test.now); got != test.want {
				t.Errorf("covered by policy %q, want %q", got, test.want)
			}
		})
	}
}

func TestClientsOfNoPolicyAreBlocked(t *testing.T) {
	e := newEngineOf(t, Config{{Name: "anna", Users: []string{"anna"}}}, Parts{})
	tr, _ := page{client: filter.Client{Addr: netip.MustParseAddr("192.0.2.1"), User: "berta"}}.judge(t, e)
	want := filter.Verdict{Action: filter.Block, Reason: filter.Reason{Finding: filter.Finding{
		Check: "policy", Category: "uncovered", Evidence: `no policy covers client 192.0.2.1 (user "berta")`}}}
	if d := cmp.Diff(want, tr.Verdict); d != "" {
		t.Error("verdict (-want +got):\n" + d)
	}
	if len(tr.Findings) != 1 {
		t.Errorf("findings are %v, want one", tr.Findings)
	}
}

func TestManyPoliciesKeepTheirOrder(t *testing.T) {
	var cfg Config
	for i := range 200 {
		var n Network
		if err := n.UnmarshalText(fmt.Appendf(nil, "10.0.%d.0/24", i)); err != nil {
			t.Fatal(err)
		}
		cfg = append(cfg, Policy{Name: fmt.Sprint(i), Networks: []Network{n}})
	}
	cfg = append(cfg, Policy{Name: "rest"})
	e := newEngineOf(t, cfg, Parts{})
	for _, i := range []int{0, 63, 64, 199} {
		c := filter.Client{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i), 1})}
		if got := policyName(e, c, time.Time{}); got != fmt.Sprint(i) {
			t.Errorf("covered by policy %q, want %d", got, i)
		}
	}
	if got := policyName(e, filter.Client{}, time.Time{}); got != "rest" {
		t.Errorf("client without an address: covered by policy %q, want rest", got)
	}
}

func TestAsJudgesByAnotherPolicy(t *testing.T) {
	e := newEngineOf(t, Config{{Name: "pupils", Users: []string{"x"}, Rules: []Rule{adult}}, {Name: "all"}}, Parts{},
		list(map[filter.Stage][]string{filter.Name: {"adult"}}), phrases(0))
	d, err := e.As("pupils")
	if err != nil {
		t.Fatal(err)
	}
	if tr, _ := (page{}).judge(t, d); tr.Verdict.Action != filter.Block || tr.Verdict.Reason.Policy != "pupils" {
		t.Errorf("verdict %+v, want a block by pupils", tr.Verdict)
	}
	if tr, _ := (page{}).judge(t, e); tr.Verdict.Action != filter.Pass {
		t.Errorf("the engine itself: %+v, want a pass", tr.Verdict)
	}
	if _, err := e.As("pupil"); err == nil || !strings.Contains(err.Error(), `did you mean "pupils"?`) {
		t.Errorf("error %v, want it to name pupils", err)
	}
}

func TestOnlyChecksThatCountRun(t *testing.T) {
	var asked []string
	c, p := list(map[filter.Stage][]string{filter.Name: {"adult"}}), phrases(99)
	c.asked, p.asked = &asked, &asked
	e := newEngine(t, []Rule{words}, c, p)
	page{}.judge(t, e)
	if d := cmp.Diff([]string{"phrase@response-body"}, asked); d != "" {
		t.Error("checks run (-want +got):\n" + d)
	}
	asked = nil
	e = newEngine(t, []Rule{adult, words}, p, c)
	page{}.judge(t, e)
	if d := cmp.Diff([]string{"category@name"}, asked); d != "" {
		t.Error("checks run for a block by host (-want +got):\n" + d)
	}
}

func TestAllowLooksNoFurther(t *testing.T) {
	var asked []string
	p := phrases(99)
	p.asked = &asked
	e := newEngine(t, []Rule{{Name: "a", Action: "allow", Host: []string{"example.com"}}, words}, p)
	tr, _ := page{}.judge(t, e)
	tr.Response = &message.Response{Status: 200, Fields: fields([]string{"Content-Type", "text/html"})}
	for s := filter.Name; s <= filter.ResponseBody; s++ {
		e.Decide(t.Context(), tr, s)
		if v := tr.Verdict; v.Action != filter.Allow || v.Reason.Rule != "a" {
			t.Errorf("at %v: %+v, want the allow to stand", s, v)
		}
		if e.Wants(tr, s) {
			t.Errorf("Wants(%v) is true for an allowed request", s)
		}
	}
	if len(asked) != 0 {
		t.Errorf("checks ran on an allowed request: %v", asked)
	}
}

func TestAPanicIsLoggedOnceWithItsStack(t *testing.T) {
	var log strings.Builder
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "v", Action: "block", Category: cats("virus")}}}},
		Parts{Log: slog.New(slog.NewTextHandler(&log, nil))},
		&fake{name: "virus", known: []filter.Category{{Name: "virus"}}, panics: true, wants: []filter.Stage{filter.Name}})
	for range 3 {
		page{}.judge(t, e)
	}
	if n := strings.Count(log.String(), "it broke"); n != 1 || !strings.Contains(log.String(), "engine_test.go") {
		t.Errorf("logged %d times, want once with a stack: %s", n, log.String())
	}
}

func TestABodyJudgedOftenHasOneFindingWithItsGreatestScore(t *testing.T) {
	p := phrases(30, "banned")
	e := newEngine(t, []Rule{words, {Name: "b", Action: "block", Category: cats("phrase/banned"), Host: []string{"other"}}}, p)
	tr, _ := page{}.judge(t, e)
	for _, score := range []int{45, 60, 40, 60, -5, 30} { // as more of the body arrives
		p.finds[filter.ResponseBody] = []filter.Finding{{Check: "phrase", Category: "phrase", Score: score}, {Check: "phrase", Category: "banned"}}
		e.Decide(t.Context(), tr, filter.ResponseBody)
	}
	v := tr.Verdict
	want := []filter.Finding{{Check: "phrase", Category: "phrase", Score: 60}, {Check: "phrase", Category: "banned"}}
	if d := cmp.Diff(want, tr.Findings); d != "" {
		t.Error("findings (-want +got):\n" + d)
	}
	if v.Action != filter.Block || v.Reason.Finding.Score != 60 {
		t.Errorf("verdict %+v, want a block by the greater score", v)
	}
}

func TestRedirectLeadsToTheTarget(t *testing.T) {
	e := newEngine(t, []Rule{{Name: "r", Action: "redirect", Category: cats("adult"),
		To: "https://intra.test/blocked?u={url}&h={host}&c={category}&p={policy}&i={id}&a={client}&n={login}"}},
		list(map[filter.Stage][]string{filter.Name: {"adult"}}))
	tr, _ := page{path: "/a?b=1&c"}.judge(t, e)
	const want = "https://intra.test/blocked?u=http%3A%2F%2Fexample.com%2Fa%3Fb%3D1%26c&h=example.com&c=adult&p=p&i=id1&a=&n="
	if tr.Verdict.Action != filter.Redirect || tr.Verdict.To != want {
		t.Errorf("got %v to %q, want a redirect to %q", tr.Verdict.Action, tr.Verdict.To, want)
	}
}

func TestMistakesInSettingsNameTheirKey(t *testing.T) {
	rule := func(r Rule) Config {
		if r.Name == "" {
			r.Name = "r"
		}
		return Config{{Name: "a"}, {Name: "p", Rules: []Rule{{Name: "ok", Action: "block"}, r}}}
	}
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"no policy name":        {Config{{}}, `[0].name: a policy needs a name`},
		"a policy twice":        {Config{{Name: "a"}, {Name: "a"}}, `[1].name: there is already a policy "a"`},
		"no rule name":          {Config{{Name: "a", Rules: []Rule{{Action: "block"}}}}, `[0].rules[0].name: a rule needs a name`},
		"a rule twice":          {rule(Rule{Name: "ok", Action: "block"}), `[1].rules[1].name: there is already a rule "ok"`},
		"action":                {rule(Rule{Action: "deny"}), `[1].rules[1].action: "deny" is not one of allow, monitor, warn, block and redirect`},
		"unknown category":      {rule(Rule{Action: "block", Category: cats("adult", "bnak")}), `[1].rules[1].category[1]: no check reports the category "bnak"; did you mean "bank"?`},
		"unknown in unless":     {rule(Rule{Action: "block", Unless: cats("gray")}), `[1].rules[1].unless[0]: no check reports the category "gray"; did you mean "grey"?`},
		"score without over":    {rule(Rule{Action: "block", Category: cats("phrase")}), `[1].rules[1].category[0]: "phrase" is scored`},
		"a negative over":       {rule(Rule{Action: "block", Category: cats("phrase"), Over: over(-5)}), `[1].rules[1].over: -5 is below 0`},
		"over without score":    {rule(Rule{Action: "block", Category: cats("bank"), Over: over(1)}), `[1].rules[1].over: none of the rule's categories is scored`},
		"url":                   {rule(Rule{Action: "block", URL: []string{"ok", "(?=x)"}}), `[1].rules[1].url[1]: "(?=x)" is not a regular expression of RE2`},
		"header":                {rule(Rule{Action: "block", Header: map[string]string{"X-A": "("}}), `[1].rules[1].header.X-A: `},
		"host":                  {rule(Rule{Action: "block", Host: []string{"http://a.com"}}), `[1].rules[1].host[0]: "http://a.com" is not a host`},
		"extension":             {rule(Rule{Action: "block", Extension: []string{"*.exe"}}), `[1].rules[1].extension[0]: "*.exe" is not an extension`},
		"type":                  {rule(Rule{Action: "block", Type: []string{"html"}}), `[1].rules[1].type[0]: "html" is not a media type`},
		"method":                {rule(Rule{Action: "block", Method: []string{"post"}}), `[1].rules[1].method[0]: "post" is not a method`},
		"search":                {rule(Rule{Action: "block", Search: []string{"--"}}), `[1].rules[1].search[0]: "--" has no letter`},
		"redirect to nowhere":   {rule(Rule{Action: "redirect"}), `[1].rules[1].to: a redirect needs a target`},
		"redirect, no URL":      {rule(Rule{Action: "redirect", To: "/blocked"}), `[1].rules[1].to: "/blocked" is not a URL`},
		"redirect, bad place":   {rule(Rule{Action: "redirect", To: "http://a/{user}"}), `[1].rules[1].to: "http://a/{user}" holds a place that is none of`},
		"redirect by request":   {rule(Rule{Action: "redirect", To: "http://{host}/"}), `the host may not depend on the request`},
		"to of a block":         {rule(Rule{Action: "block", To: "http://a/"}), `[1].rules[1].to: only a redirect has a target`},
		"schedule of a rule":    {rule(Rule{Action: "block", Schedule: schedule.Schedule{{Days: "mo"}}}), `[1].rules[1].schedule: days "mo" cannot be read`},
		"schedule, the second":  {Config{{Name: "p", Schedule: schedule.Schedule{{}, {Hours: "9-17"}}}}, `[0].schedule[1]: hours "9-17" cannot be read`},
		"zone":                  {Config{{Name: "p", Schedule: schedule.Schedule{{Zone: "Mars/Base"}}}}, `[0].schedule: zone "Mars/Base" is not known`},
		"youtube":               {Config{{Name: "p", YouTube: "kids"}}, `[0].youtube: "kids" is not one of off, moderate and strict`},
		"tenants of Microsoft":  {Config{{Name: "p", Tenants: preset.Tenants{Microsoft: &preset.Microsoft{Allow: []string{"a"}}}}}, `[0].tenants.microsoft: both allow`},
		"a tenant with a blank": {Config{{Name: "p", Tenants: preset.Tenants{Google: []string{"ok.com", "a b"}}}}, `[0].tenants.google[1]: "a b" is not allowed in a header field`},
		"an empty network":      {Config{{Name: "p", Networks: []Network{{}}}}, `[0].networks[0]: an empty network`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.cfg, []filter.Check{list(nil), phrases(0)}, Parts{})
			if s := (*setting.Error)(nil); !errors.As(err, &s) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v\nwant a setting error with %s", err, test.want)
			}
		})
	}
	if _, err := New(nil, nil, Parts{}); err == nil {
		t.Error("New made an engine without policies")
	}
}

func TestDecideAllocatesNothingWhenAllPasses(t *testing.T) {
	e, tr := manyPolicies(t)
	ctx := context.Background()
	// Under the race detector, sync.Pool drops items at random.
	if n := testing.AllocsPerRun(1000, func() { pass(ctx, t, e, tr) }); n != 0 && !race.On {
		t.Errorf("%v allocations for a request that passes, want 0", n)
	}
}

// manyPolicies returns 10 policies of 20 rules each, of all kinds; the last policy covers the
// client.
func manyPolicies(t testing.TB) (*Engine, *filter.Transaction) {
	var cfg Config
	for i := range 10 {
		var n Network
		if err := n.UnmarshalText(fmt.Appendf(nil, "10.%d.0.0/16", i)); err != nil {
			t.Fatal(err)
		}
		p := Policy{Name: fmt.Sprint(i), Networks: []Network{n}, SafeSearch: true, YouTube: "strict"}
		for j := range 20 {
			r := Rule{Name: fmt.Sprint(j), Action: "block"}
			switch j % 5 {
			case 0:
				r.Category = cats("adult", "own")
			case 1:
				r.Category, r.Over = cats("phrase"), over(100*j)
			case 2:
				r.Host = []string{fmt.Sprintf("host%d.test", j)}
			case 3:
				r.Extension = []string{"exe", "msi"}
			case 4:
				r.Category, r.Unless = cats("bank"), cats("grey")
			}
			p.Rules = append(p.Rules, r)
		}
		cfg = append(cfg, p)
	}
	e := newEngineOf(t, cfg, Parts{}, list(nil), phrases(10))
	tr := &filter.Transaction{
		Start: time.Now(), Host: "www.example.com", URL: "http://www.example.com/a/page.html?x=1",
		Client:  filter.Client{Addr: netip.MustParseAddr("10.9.1.1")},
		Request: &message.Request{Method: "GET", Path: []byte("/a/page.html?x=1")},
		Last:    filter.ResponseBody,
	}
	return e, tr
}

// pass shows a request to an engine, up to the response.
func pass(ctx context.Context, t testing.TB, e *Engine, tr *filter.Transaction) {
	tr.Findings, tr.Verdict = tr.Findings[:0], filter.Verdict{}
	tr.Last = filter.ResponseBody
	for s := filter.Name; s <= filter.Request; s++ {
		e.Decide(ctx, tr, s)
		if v := tr.Verdict; v.Action != filter.Pass {
			t.Fatalf("stage %v: got %+v, want pass", s, v)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	e, tr := manyPolicies(b)
	ctx := context.Background()
	for s := filter.Name; s <= filter.Request; s++ {
		b.Run(s.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tr.Findings, tr.Verdict = tr.Findings[:0], filter.Verdict{}
				e.Decide(ctx, tr, s)
			}
		})
	}
	response := &message.Response{Status: 200, Fields: fields([]string{"Content-Type", "text/html"})}
	b.Run("wants-body", func(b *testing.B) {
		tr.Response = response
		b.ReportAllocs()
		for b.Loop() {
			e.Wants(tr, filter.ResponseBody)
		}
	})
	b.Run("response-body", func(b *testing.B) {
		tr.Response = response
		b.ReportAllocs()
		for b.Loop() {
			tr.Findings, tr.Verdict = tr.Findings[:0], filter.Verdict{}
			e.Decide(ctx, tr, filter.ResponseBody)
		}
	})
}

// policyName returns the name of the policy that covers a client at a time, "" if none does.
func policyName(e *Engine, c filter.Client, now time.Time) string {
	if p := e.policyFor(&c, now); p != nil {
		return p.name
	}
	return ""
}
