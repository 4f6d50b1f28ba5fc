package policy

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
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
	// monitors says that the rule only records that it matches, and count counts that.
	monitors bool
	count    metric.Counter
	over     int
	found    bool   // the rule names categories, one of which must be found
	finds    uint64 // the checks that can report one of them
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
	methods  []string
	exts     []string // in lower case, with the dot
	extTypes []string // media types of these
	headers  []headerPattern
	agents   pattern.Patterns
	referer  pattern.Hosts
	urls     pattern.Patterns
	search   [][]byte      // in the form of searched
	forms    *search.Forms // words of search in braces
	types    []string      // in lower case; "image/" for image/*
	queries  []uint16
	ja4      []string
	sent     *uploadConditions // nil if there are none

	needsRequest bool // some condition needs the request head
	// varies says that two requests for the same URL may get different answers: then a learned
	// verdict is valid only for requests with the same answer.
	varies bool
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
	if r.needsRequest {
		if w.stage < filter.Request {
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
	if r.methods != nil && (q == nil || !slices.Contains(r.methods, q.Method)) {
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
	return a
}

func (r *conditions) extension(w *walk) answer {
	if w.stage < filter.Request {
		return w.laterThan(filter.Request)
	}
	path := w.url()[len(w.t.Host):w.scratch().query]
	if hasExtension(path, r.exts) {
		return yes
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
		typ = w.t.Body.SniffedType()
	}
	if slices.Contains(r.extTypes, typ) {
		return yes
	}
	return no
}

// isGeneric reports whether a media type does not identify a kind of file.
func isGeneric(typ string) bool {
	switch typ {
	case "", "text/plain", "application/octet-stream", "binary/octet-stream", "application/force-download", "application/x-download":
		return true
	}
	return false
}

// typesOf maps an extension to media types: those detected from the first bytes (package
// content), and those that servers declare.
var typesOf = map[string][]string{
	"exe":     {"application/vnd.microsoft.portable-executable", "application/x-msdownload", "application/x-msdos-program", "application/x-dosexec", "application/x-winexe", "application/exe"},
	"msi":     {"application/x-msi", "application/x-ms-installer"},
	"apk":     {"application/vnd.android.package-archive"},
	"jar":     {"application/java-archive", "application/x-java-archive"},
	"swf":     {"application/x-shockwave-flash"},
	"deb":     {"application/vnd.debian.binary-package", "application/x-debian-package"},
	"rpm":     {"application/x-rpm"},
	"dmg":     {"application/x-apple-diskimage"},
	"iso":     {"application/x-iso9660-image"},
	"zip":     {"application/zip", "application/x-zip-compressed", "application/x-zip"},
	"tar":     {"application/x-tar", "application/tar"},
	"gz":      {"application/gzip", "application/x-gzip"},
	"7z":      {"application/x-7z-compressed"},
	"rar":     {"application/x-rar-compressed", "application/vnd.rar", "application/x-rar"},
	"pdf":     {"application/pdf", "application/x-pdf"},
	"mp3":     {"audio/mpeg", "audio/mp3"},
	"wav":     {"audio/wav", "audio/x-wav", "audio/wave"},
	"mp4":     {"video/mp4"},
	"webm":    {"video/webm"},
	"avi":     {"video/x-msvideo", "video/avi"},
	"flv":     {"video/x-flv"},
	"mpg":     {"video/mpeg"},
	"mpeg":    {"video/mpeg"},
	"mov":     {"video/quicktime"},
	"wmv":     {"video/x-ms-wmv"},
	"torrent": {"application/x-bittorrent"},
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
	when   schedule.Hours
	rules  []*rule
	meanings
	checks   []int               // the checks to ask, cheap ones first
	always   ruleSet             // rules that name no category
	monitors ruleSet             // rules that only monitor
	hosts    map[string]*ruleSet // rules by the hosts they name
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
	uploads *uploads // texts that rules look for in bodies of requests; nil for nothing
	varies  []int    // rules that may treat two requests for one URL differently
}

// meanings are what findings mean for the rules.
type meanings struct {
	refs     map[category][]ref
	failures map[category][]failureRef // of checks, for rules that do not name them
}

// A readingMode is how bodies are read.
type readingMode struct {
	patience  time.Duration
	disguised bool
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
