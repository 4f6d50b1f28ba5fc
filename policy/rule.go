package policy

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/policy/pattern"
	"shuultuur/policy/preset"
	"shuultuur/policy/schedule"
	"shuultuur/policy/search"
)

// An answer is whether something holds, as far as is known.
type answer uint8

// The lesser of two answers is their conjunction.
const (
	no    answer = iota
	maybe        // a later stage will tell
	yes          // certain: no later stage changes it
)

// A rule is a compiled Rule.
type rule struct {
	name   string
	action filter.Action
	text   string // for those who are refused
	// monitors says that the rule only records that it matches, and count counts that.
	monitors bool
	count    metric.Counter
	over     int
	found    bool   // the rule names categories, one of which must be found
	finds    uint64 // the checks that can report one of them
	wrapped  *bool  // see Rule
	unless   uint64 // the checks that can report an unless category
	warnFor  time.Duration
	to       target
	answer   filter.Answer
	replace  bool // replaces a refused message of a conversation
	// show is the replacement of a picture. A rule with show matches only pictures, and only
	// once their bytes are known.
	show filter.Show

	// implied marks the last rule where connections are decrypted; certificate, a rule that
	// names certificate faults.
	implied, certificate bool
	locked               []string // categories that are refused even during a pause

	conditions
}

// conditions are the conditions on the transaction itself, except for the host, which is
// looked up for all rules at once: see walk.host.
type conditions struct {
	when     schedule.Hours
	methods  pattern.Methods
	schemes  []string   // in lower case
	ports    []portSpan // nil for any
	exts     []string   // in lower case, with the dot
	extTypes []string   // media types of these
	headers  []headerPattern
	agents   pattern.Patterns
	referer  pattern.Hosts
	urls     pattern.Patterns
	full     fullURLs
	search   [][]byte      // in the form of searched
	forms    *search.Forms // words of search in braces
	types    []string      // in lower case; "image/" for image/*
	queries  []uint16
	ja4      []string
	sent     *uploadConditions // nil if there are none

	needsRequest bool // some condition needs the request head
	tunnels      bool // it may hold for a tunnel: all that it needs is that it is one, and its URL
	onlyTunnels  bool // its only method is CONNECT
	// varies says that two requests for the same URL may get different answers: then a learned
	// verdict is valid only for requests with the same answer.
	varies bool
}

// Unlogged reports whether a rule has conditions on what no log contains: fields of the request, the
// hello, what was sent, and findings other than those of lists that it must be without.
func (e *Engine) Unlogged(policy, rule string) bool {
	others := ^uint64(0)
	for i, c := range e.checks {
		if c.Name() == "category" {
			others &^= 1 << i
		}
	}
	for _, p := range e.policies {
		for _, r := range p.rules {
			if p.name == policy && r.name == rule && (r.headers != nil || r.ja4 != nil || r.sent != nil || r.unless&others != 0) {
				return true
			}
		}
	}
	return false
}

// holds reports whether the conditions of the rule hold. It tests cheap ones first.
func (r *rule) holds(w *walk) answer {
	if r.action == filter.Redirect && r.to.host == w.t.Host {
		return no
	}
	a := r.conditions.hold(w)
	if a != no && r.show != filter.Nothing {
		a = min(a, r.picture(w))
	}
	if a != no && r.sent != nil {
		a = min(a, r.sent.hold(w, r.name))
	}
	return a
}

func (r *conditions) hold(w *walk) answer {
	t, a := w.t, yes
	if r.when != nil && !r.when.Open(w.now) {
		return no
	}
	if r.queries != nil && (t.Proto != filter.DNS || !slices.Contains(r.queries, t.Type)) {
		return no
	}
	if r.ja4 != nil && !slices.Contains(r.ja4, t.JA4) {
		if t.JA4 == "" && t.Proto == filter.TLS {
			return maybe // the hello has not arrived yet
		}
		return no
	}
	if r.ports != nil && !hasPort(r.ports, portOf(t)) {
		return no
	}
	if r.needsRequest {
		if w.stage < filter.Request {
			if r.tunnels && t.Proto == filter.TLS && r.full.match(t) {
				return yes
			}
			if r.onlyTunnels && t.Proto == filter.TLS {
				return no // what is inside has other methods
			}
			return w.laterThan(filter.Request)
		}
		if a = r.request(w); a == no {
			return no
		}
	}
	if r.exts != nil {
		a = min(a, r.extension(w))
	}
	if a != no && r.types != nil {
		a = min(a, r.mediaType(w))
	}
	return a
}

// picture returns whether the body is a complete picture.
func (r *rule) picture(w *walk) answer {
	t := w.t
	switch {
	case w.stage < filter.ResponseBody:
		if w.stage == filter.Response && !mayBePicture(t) {
			return no
		}
		return w.laterThan(filter.ResponseBody)
	case t.Body == nil || !t.IsPicture():
		return no
	case !t.Body.Complete():
		return maybe
	}
	return yes
}

// mayBePicture reports whether a response may be a picture, as far as its head says.
func mayBePicture(t *filter.Transaction) bool {
	media := t.Content().Type()
	return media == "" || strings.HasPrefix(media, "image/") || t.ForPicture()
}

// laterThan is the answer to a question that only stage s can settle.
func (w *walk) laterThan(s filter.Stage) answer {
	if s <= w.last {
		return maybe
	}
	return no
}

// request returns whether the conditions on the request head and the search term hold.
func (r *conditions) request(w *walk) answer {
	q, a := w.t.Request, yes
	if r.methods.Any() && (q == nil || !r.methods.Has(q.Method)) {
		return no
	}
	if r.schemes != nil && (q == nil || !slices.Contains(r.schemes, q.Scheme)) {
		return no
	}
	if r.referer != nil && (q == nil || !r.referer.HasURL(q.Get("Referer"))) {
		return no
	}
	if r.agents != nil && (q == nil || !r.agents.Match(w.folded(q.Get("User-Agent")))) {
		return no
	}
	for i := range r.headers {
		h := &r.headers[i]
		if q == nil || !h.match(w, q.Fields) {
			return no
		}
	}
	if (r.search != nil || r.forms != nil) && !search.ContainsAny(w.searched(), r.search) && !r.forms.In(w.searched()) {
		a = searchToCome(w)
	}
	if r.urls != nil && !r.urls.Match(w.url()) {
		return no
	}
	if !r.full.match(w.t) {
		return no
	}
	return a
}

// fullURLs are expressions on URLs as they were sent: of some, one matches, and of others none does.
type fullURLs struct{ some, none []*regexp.Regexp }

func compileFullURLs(texts []string) (f fullURLs, err error) {
	for i, s := range texts {
		s, not := strings.CutPrefix(s, "!")
		if s == "" || len(s) > 4096 {
			return f, setting.At(fmt.Sprintf("full-url[%d]", i), fmt.Errorf("the expression has %d bytes; write one of 1 to 4096", len(s)))
		}
		x, err := regexp.Compile(s)
		if err != nil {
			return f, setting.At(fmt.Sprintf("full-url[%d]", i), fmt.Errorf("%q is not a regular expression of RE2: %w", s, err))
		}
		if not {
			f.none = append(f.none, x)
		} else {
			f.some = append(f.some, x)
		}
	}
	return f, nil
}

func (f *fullURLs) any() bool { return len(f.some)+len(f.none) > 0 }

func (f *fullURLs) match(t *filter.Transaction) bool {
	if !f.any() {
		return true
	}
	url := t.URL
	if t.Proto == filter.TLS {
		url = net.JoinHostPort(t.Host, strconv.Itoa(int(portOf(t))))
	}
	matches := func(x *regexp.Regexp) bool { return x.MatchString(url) }
	return url != "" && (len(f.some) == 0 || slices.ContainsFunc(f.some, matches)) && !slices.ContainsFunc(f.none, matches)
}

func (r *conditions) extension(w *walk) answer {
	if w.stage < filter.Request {
		return w.laterThan(filter.Request)
	}
	path := w.url()[len(w.t.Host):w.scratch().query]
	if hasExtension(path, r.exts) {
		return w.unlessPage(path)
	}
	if i := bytes.IndexByte(path, ';'); i >= 0 && hasExtension(path[:i], r.exts) {
		return yes
	}
	if w.stage < filter.Response {
		return w.laterThan(filter.Response)
	}
	if w.t.Response == nil {
		return no
	}
	if v := w.t.Response.Get("Content-Disposition"); v != nil && hasExtension(fileName(v, w.scratch()), r.exts) {
		return yes
	}
	return r.extensionOfType(w)
}

// dotCom ends names of sites and of programs.
var dotCom = []string{".com"}

// unlessPage is the answer for a path that ends like a file. Pages about sites end in ".com", too, as
// programs once did: there the type of the response decides.
func (w *walk) unlessPage(path []byte) answer {
	switch {
	case !hasExtension(path, dotCom), w.last < filter.Response:
		return yes
	case w.stage < filter.Response:
		return maybe
	}
	typ := w.t.Content().Type()
	switch {
	case typ == "" && w.stage < filter.ResponseBody && w.last >= filter.ResponseBody:
		return maybe
	case w.stage >= filter.ResponseBody && w.t.Body != nil:
		typ = w.t.Body.Type()
	}
	if typ == "text/html" || typ == "application/xhtml+xml" {
		return no
	}
	return yes
}

// extensionOfType compares with the extensions of files of the effective type, so that
// renaming does not hide a program. Where the type is vague, the first bytes decide.
func (r *conditions) extensionOfType(w *walk) answer {
	if len(r.extTypes) == 0 {
		return no
	}
	typ := w.t.Content().Type()
	switch {
	case !isGeneric(typ):
	case w.stage < filter.ResponseBody:
		return w.laterThan(filter.ResponseBody)
	case w.t.Body != nil:
		if typ = w.t.Body.SniffedType(); typ == "application/zip" && w.named(inZip) {
			return no
		}
	}
	if slices.Contains(r.extTypes, typ) {
		return yes
	}
	return no
}

// inZip are extensions of files that begin like a ZIP archive, and are something else to people.
var inZip = strings.Fields(`.docx .docm .dotx .dotm .xlsx .xlsm .xltx .xltm .xlsb .pptx .pptm .potx .potm .ppsx .ppsm .vsdx .xps .oxps
	.odt .ods .odp .odg .odf .odb .ott .ots .otp .epub .pages .numbers .key .jar .war .ear .aar .apk .apks .xapk .aab .ipa .xpi .crx .kmz
	.sb3 .sb2 .cbz .whl .egg .nupkg .vsix .usdz .3mf .mscz .mcworld .mcpack .mcaddon .mctemplate .gsheet .ggb .h5p .mxl .idml .sketch .xap .xmind .twbx .pbix`)

// named reports whether the path, or the name that the origin gives, has one of these extensions.
func (w *walk) named(exts []string) bool {
	if v := w.t.Response.Get("Content-Disposition"); v != nil {
		if name := fileName(v, w.scratch()); name != nil {
			return hasExtension(name, exts)
		}
	}
	path, _, _ := bytes.Cut(w.url()[len(w.t.Host):w.scratch().query], []byte(";"))
	return hasExtension(path, exts)
}

// isGeneric reports whether a media type does not identify a kind of file.
func isGeneric(typ string) bool {
	switch typ {
	case "", "text/plain", "application/octet-stream", "binary/octet-stream", "application/force-download", "application/x-download":
		return true
	}
	return false
}

// mediaType compares with the effective type of the body: the declared one, or the detected
// one where none is declared or the declared one is wrong.
func (r *conditions) mediaType(w *walk) answer {
	if w.stage < filter.Response {
		return w.laterThan(filter.Response)
	}
	if w.t.Response == nil {
		return no
	}
	typ := w.t.Content().Type()
	switch {
	case w.stage >= filter.ResponseBody && w.t.Body != nil:
		typ = w.t.Body.Type()
	case typ == "" && w.stage < filter.ResponseBody:
		return w.laterThan(filter.ResponseBody)
	}
	for _, t := range r.types {
		if len(typ) >= len(t) && (len(typ) == len(t) || t[len(t)-1] == '/') && typ[:len(t)] == t {
			return yes
		}
	}
	return no
}

// hasExtension reports whether the last segment of a path, in lower case, ends with one of
// exts.
func hasExtension(path []byte, exts []string) bool {
	for _, e := range exts {
		if len(path) >= len(e) && equalFold(path[len(path)-len(e):], e) {
			return true
		}
	}
	return false
}

// fileName returns the name in a Content-Disposition (RFC 6266), as leniently as browsers do.
// The extended form takes precedence.
func fileName(v []byte, s *scratch) []byte {
	var plain []byte
	for len(v) > 0 {
		var part []byte
		part, v = cutParameter(v)
		name, value, ok := bytes.Cut(part, []byte("="))
		if !ok {
			continue
		}
		name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
		if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		switch {
		case equalFold(name, "filename*"):
			if i := bytes.LastIndexByte(value, '\''); i >= 0 {
				value = value[i+1:]
			}
			s.fold = pattern.AppendDecoded(s.fold[:0], value, false)
			return s.fold
		case equalFold(name, "filename") && plain == nil:
			plain = value
		}
	}
	return plain
}

// cutParameter cuts v after the first semicolon that is not in quotes.
func cutParameter(v []byte) (part, rest []byte) {
	quoted := false
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '"':
			quoted = !quoted
		case v[i] == '\\' && quoted:
			i++
		case v[i] == ';' && !quoted:
			return v[:i], v[i+1:]
		}
	}
	return v, nil
}

// equalFold compares ASCII ignoring case; b is in lower case.
func equalFold(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if ascii.Lower(a[i]) != b[i] {
			return false
		}
	}
	return true
}

// A portSpan is the ports from one to another.
type portSpan struct{ from, to uint16 }

func hasPort(all []portSpan, port uint16) bool {
	return slices.ContainsFunc(all, func(s portSpan) bool { return s.from <= port && port <= s.to })
}

// portOf returns the port that a transaction goes to; 0 for none.
func portOf(t *filter.Transaction) uint16 {
	switch {
	case t.Port != 0 || t.Proto == filter.DNS:
		return t.Port
	case t.Request != nil && t.Request.Scheme == "http":
		return 80
	}
	return 443
}

// compilePorts reads ports and ranges of ports.
func compilePorts(texts []string) (all []portSpan, err error) {
	for i, s := range texts {
		from, to, ranged := strings.Cut(s, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || a == 0 || a > b {
			return nil, setting.At(fmt.Sprintf("port[%d]", i), fmt.Errorf("%q is neither a port nor a range of ports such as 8000-8100", s))
		}
		all = append(all, portSpan{uint16(a), uint16(b)})
	}
	return all, nil
}

type headerPattern struct {
	name string // lower case
	pattern.Pattern
}

// match tests every field of that name.
func (h *headerPattern) match(w *walk, fields message.Fields) bool {
	for i := range fields {
		if equalFold(fields[i].Name, h.name) && h.Pattern.Match(w.folded(fields[i].Value)) {
			return true
		}
	}
	return false
}

// A policy is a compiled Policy.
type policy struct {
	name   string
	users  map[string]struct{}
	groups map[string]struct{}
	// unknown says that it covers clients whose groups are unknown, too; severity is compared
	// among the policies that may be such a client's.
	unknown  bool
	severity []int
	when     schedule.Hours
	rules    []*rule
	meanings
	unloaded unloaded
	checks   []int               // the checks to ask, cheap ones first
	always   ruleSet             // rules that name no category
	monitors ruleSet             // rules that only monitor
	hosts    map[string]*ruleSet // rules by the hosts they name
	excepts  map[string]*ruleSet // rules by the hosts they leave alone
	any      ruleSet             // rules that name no host
	presets  preset.Presets
	names    filter.Names
	learn    time.Duration
	decrypt  bool
	store    bool
	hide     bool
	readingMode
	// warnClosed refuses a click when it is unknown whether its token was used before.
	warnClosed bool

	limits  []limit // on requests
	queries []limit // on queries
	quotas  []limit
	rations []ration
	// requests counts whether a client has sent requests today; nil if no quota wants to know.
	requests *limit
	uploads  *uploads // texts that rules look for in bodies of requests; nil for nothing
	varies   []int    // rules that may treat two requests for one URL differently
}

// meanings are what findings mean for the rules.
type meanings struct {
	refs     map[category][]ref
	failures map[category][]failureRef // of checks, for rules that do not name them
}

// A readingMode is how bodies are read.
type readingMode struct {
	patience  time.Duration
	trickle   time.Duration
	disguised bool
	packages  bool
	watchedThemes
}

// A category as a check reports it.
type category struct{ check, name string }

// A ref is the meaning of a finding for a rule.
type ref struct {
	rule   int
	scored bool // only with a score above the rule's limit
	unless bool
}

// means reports whether a finding is of the kind that the rule asks for. What an address contains
// is no reason to let it pass.
func (r ref) means(f *filter.Finding, of *rule) bool {
	switch {
	case r.scored && f.Score <= of.over:
		return false
	case r.unless || of.action == filter.Allow:
		return !f.Wrapped
	}
	return of.wrapped == nil || *of.wrapped == f.Wrapped
}

type ruleSet [ruleWords]uint64

func (s *ruleSet) add(i int) { s[i>>6] |= 1 << (i & 63) }

func (s *ruleSet) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }

// addAll adds the rules that name the host or a parent domain.
func (s *ruleSet) addAll(hosts map[string]*ruleSet, host string) {
	for {
		if rules := hosts[host]; rules != nil {
			for i := range s {
				s[i] |= rules[i]
			}
		}
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return
		}
		host = host[i+1:]
	}
}

// A walk is one decision in progress.
type walk struct {
	e           *Engine
	p           *policy
	t           *filter.Transaction
	stage, last filter.Stage
	now         time.Time

	host          ruleSet       // rules that the host does not exclude
	found, unless ruleSet       // by findings: rules with a category that was found, rules with an unless that was
	ran           uint64        // checks that have run at this stage
	warned        bool          // the client has clicked through a warning about the certificate
	waiting       bool          // first met a rule that waits for a check of this stage
	paused        time.Duration // how much longer filtering is paused for the client; 0: it is not
	opened        bool          // because of a decision about the site
	blocked       bool          // a decision blocks the site
	lifted        *rule         // the first rule that would refuse without the pause
	asked, wanted uint64        // checks asked whether they want a later stage, and their answers
	upload        *uploadScan   // of the request's body, at its stage
	s             *scratch
}

// A target is the destination of a redirect, with placeholders.
type target struct {
	text string
	host string // host of the target, unless it depends on the transaction
}

func (to *target) url(t *filter.Transaction) string {
	client := ""
	if t.Client.Addr.IsValid() {
		client = t.Client.Addr.String()
	}
	return strings.NewReplacer(
		"{url}", url.QueryEscape(t.URL),
		"{host}", url.QueryEscape(t.Host),
		"{category}", url.QueryEscape(t.Verdict.Reason.Finding.Category),
		"{policy}", url.QueryEscape(t.Verdict.Reason.Policy),
		"{client}", url.QueryEscape(client),
		"{login}", url.QueryEscape(t.Client.User),
		"{id}", url.QueryEscape(t.ID),
	).Replace(to.text)
}

// watchedThemes is the set of themes that a policy watches.
type watchedThemes struct {
	watches int    // number of watch rules, which come first in the policy
	seeks   uint64 // the checks that can find their categories
}
