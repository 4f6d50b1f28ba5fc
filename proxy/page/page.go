// Package page makes the responses that replace a requested page: block, warn, error and
// quota pages.
//
// [New] reads the templates; built-in ones replace missing ones. For a refused request, the
// caller fills in a [Page], and [Set.Render] renders it in the form that the client can use
// ([FormOf]): a document, a notice in a frame, text, JSON, or a stand-in for a picture or script.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"html/template"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/text"
)

//go:embed *.html
var builtin embed.FS

// A Kind is a kind of page.
type Kind uint8

const (
	Block Kind = iota
	Warn
	Error
	Quota
	Wait
)

// kinds are the names of the kinds, for templates and in JSON.
var kinds = [...]string{Block: "block", Warn: "warn", Error: "error", Quota: "quota", Wait: "wait"}

// A Set is the pages of a gateway. It never changes.
type Set struct {
	texts  *text.Set
	whose  Whose
	tmpl   [len(kinds)]*template.Template // by kind
	policy [len(kinds)]string             // Content-Security-Policy, by kind
	busy   [forms]renderedPage            // by form
}

// Whose says whose network it is, and to whom its pages speak.
type Whose struct {
	Name     string   // of the family, school or company; "" shows none
	Contact  string   // whom to ask
	Children []string // policies whose pages speak to children
}

type renderedPage struct {
	ctype string
	body  []byte
}

// A Page is the data of templates. Every field may be empty.
type Page struct {
	Status   int
	Title    string // of the status, such as "Forbidden"
	Reason   string // a sentence, for error pages only
	Why      string // a clause for block and warn pages, "it is in the category gambling"
	Text     string // what the rule says instead of the reason
	Host     string
	URL      string
	Policy   string
	Rule     string
	Hours    bool // the rule holds at certain hours only
	Category string
	Check    string
	Score    int
	Evidence string // the finding, and where it is written: for administrators, not shown by default
	ID       string // of the transaction
	User     string
	Name     string // whose network it is
	Contact  string
	Child    bool             // the reader is a child
	Continue string           // warn page: target of the button; wait page: URL of the file
	Form     []Field          // warn page: what the button sends to Continue again; nil: it is a link
	Received DownloadProgress // wait page
	Vote     string           // block page: URL for a vote that this is a mistake; "" for none
	Token    string           // to send with the vote
	Time     time.Time
	After    time.Duration // limits and quotas: when to try again
	Quotas   []filter.Balance
	Texts    *text.Texts // in the client's language; nil is English
}

// A Field is a field of a form that a browser has sent.
type Field struct{ Name, Value string }

// DownloadProgress is the progress of a download.
type DownloadProgress struct {
	State State
	Bytes int64
	Size  int64 // 0 if unknown
}

// A State is the state of a download.
type State uint8

const (
	Coming  State = iota
	Checked       // all of it has arrived and is being checked
	Ready
	Refused
	Failed
)

// Progress describes the progress of a download.
func (d *Page) Progress() string {
	size := func(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) }
	key := "wait.some"
	switch r := &d.Received; {
	case r.State == Checked:
		key = "wait.check"
	case r.State == Ready:
		return d.Say("wait.done")
	case r.State == Failed:
		return d.Say("wait.failed")
	case r.Size > 0:
		key = "wait.part"
	}
	return d.Say(key, "n", size(d.Received.Bytes), "size", size(d.Received.Size))
}

// Lead returns markup that makes a browser load Continue.
func (d *Page) Lead() template.HTML {
	return template.HTML(`<meta http-equiv="refresh" content="0; url=` + template.HTMLEscapeString(d.Continue) + `">`)
}

// Say returns a text of the interface in the language of the client, with each {name} of the
// pairs (name, value) replaced.
func (d *Page) Say(key string, pairs ...any) string {
	values := make([]string, len(pairs))
	for i, p := range pairs {
		values[i] = fmt.Sprint(p)
	}
	return d.Texts.Say(key, values...)
}

// Sentence returns a text about the host, with the reason.
func (d *Page) Sentence(key string) template.HTML {
	host := template.HTML(template.HTMLEscapeString(d.Say("page")))
	if d.Host != "" {
		host = "<strong><bdi>" + template.HTML(template.HTMLEscapeString(d.Host)) + "</bdi></strong>"
	}
	before, after, _ := strings.Cut(d.Say(key), "{host}")
	if d.Why != "" {
		after += d.Say("because", "why", d.Why)
	}
	return template.HTML(template.HTMLEscapeString(before)) + host + template.HTML(template.HTMLEscapeString(after)) + "."
}

// graphic returns a value without characters that steer a terminal or end a line.
func graphic(value string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, value)
}

// plain returns a page as lines of text. A value has no characters that steer a terminal.
func (d *Page) plain(k Kind) []byte {
	var b bytes.Buffer
	line := func(before, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s\n", before, graphic(value))
		}
	}
	for _, sentence := range d.sentences(k) {
		line("", sentence)
	}
	for _, q := range d.Quotas {
		line(q.Of+": ", q.Text)
	}
	line(d.Say("warn.button")+": ", d.Continue)
	for _, row := range [...][2]string{{"address", d.URL}, {"category", d.Category}, {"rule", d.Rule}, {"policy", d.Policy}, {"user", d.User}, {"reference", d.ID}, {"questions", d.Contact}} {
		line(d.Say(row[0])+": ", row[1])
	}
	return b.Bytes()
}

// Message translates a sentence from another part of the program to the language of the
// client.
func (d *Page) Message(english string) string { return d.Texts.Message(english) }

// Heading returns the heading of an error page.
func (d *Page) Heading() string {
	if d.Status == http.StatusProxyAuthRequired {
		return d.Say("signin.title")
	}
	key := "error." + strconv.Itoa(d.Status)
	if translated := d.Say(key); translated != key {
		return translated
	}
	return d.Title
}

// functions are the functions for templates. Templates call no methods: a template that could
// call any would keep all methods of the program in the binary.
var functions = template.FuncMap{
	"say": (*Page).Say, "sentence": (*Page).Sentence, "heading": (*Page).Heading, "message": (*Page).Message, "again": (*Page).WhenToRetry,
	"style":    func() template.CSS { return template.CSS(style) },
	"progress": (*Page).Progress, "lead": (*Page).Lead,
	"headline": (*Page).Headline, "question": (*Page).Question, "file": (*Page).File, "reason": (*Page).ReasonOf,
	"over": (*Page).Over, "rings": (*Page).Rings, "what": (*Page).What, "left": (*Page).LeftOf, "use": (*Page).Use,
	"time": func(t time.Time, layout string) string { return t.Format(layout) },
}

// Whose returns whose network it is.
func (p *Set) Whose() Whose { return p.whose }

// style is the style of the pages without the comment that explains it.
var style = text.Style[strings.Index(text.Style, "*/")+3:]

// Texts returns the texts for the value of an Accept-Language field.
func (p *Set) Texts(accept string) *text.Texts { return p.texts.For(accept) }

// WhenToRetry describes when to try again, for people: "in 5 minutes", "at 00:00".
func (d *Page) WhenToRetry() string {
	switch at := d.Time.Add(d.After); {
	case d.After <= 0:
		return ""
	case d.After < 2*time.Minute:
		return d.Say("again.seconds", "n", int(d.After/time.Second))
	case d.After < 2*time.Hour:
		return d.Say("again.minutes", "n", int((d.After+time.Minute-1)/time.Minute), "time", at.Format("15:04"))
	default:
		return d.Say("again.hours", "n", int((d.After+time.Hour/2)/time.Hour), "time", at.Round(time.Minute).Format("15:04"))
	}
}

// New reads block.html, warn.html, error.html, quota.html and wait.html (html/template, with a
// [Page]) from dir. The built-in ones replace missing ones, or all if dir is "". All may use
// the built-in template "head". Files in dir/text add languages ([text.New]). contact names
// whom to ask, and is shown on the pages.
func New(dir, contact string) (*Set, error) {
	return NewFor(dir, Whose{Contact: contact})
}

// NewFor is New with all that is known of the network.
func NewFor(dir string, whose Whose) (*Set, error) {
	p := &Set{whose: whose}
	own := ""
	if dir != "" {
		own = filepath.Join(dir, "text")
		if _, err := os.Stat(own); err != nil {
			own = ""
		}
	}
	var err error
	if p.texts, err = text.New(own); err != nil {
		return nil, err
	}
	head, err := template.New("").Funcs(functions).Parse(text.Parts)
	if err == nil {
		head, err = head.ParseFS(builtin, "head.html")
	}
	if err != nil {
		return nil, err
	}
	for k, name := range kinds {
		name += ".html"
		source, err := fs.ReadFile(builtin, name)
		if err != nil {
			return nil, err
		}
		where := name
		if dir != "" {
			own, err := os.ReadFile(filepath.Join(dir, name))
			switch {
			case err == nil:
				source, where = own, filepath.Join(dir, name)
			case !os.IsNotExist(err):
				return nil, fmt.Errorf("page template: %w", err)
			}
		}
		t, err := template.Must(head.Clone()).New(where).Parse(string(source)) // never executed, so that it can be cloned
		if err != nil {
			return nil, fmt.Errorf("page %s", strings.TrimPrefix(err.Error(), "template: "))
		}
		// A field that does not exist is only noticed when the template runs.
		sample := Page{Status: 403, Title: "x", Reason: "x", Why: "x", Host: "x", URL: "http://x/", Policy: "x", Rule: "x", Category: "x",
			Check: "x", Score: 1, Evidence: "x", ID: "x", User: "x", Name: "x", Contact: "x", Continue: "http://x/", Form: []Field{{}}, Received: DownloadProgress{State: Refused, Size: 1}, Vote: "/x", Token: "x", Time: time.Unix(0, 0), After: time.Minute, Quotas: []filter.Balance{{Of: "x", Most: 1}}}
		var page bytes.Buffer
		for _, d := range []Page{{}, sample} {
			d.Texts = p.texts.For("")
			page.Reset()
			err := t.Execute(&page, &d)
			if Kind(k) == Wait && err == nil {
				err = t.ExecuteTemplate(io.Discard, "state", &d)
			}
			if err != nil {
				return nil, fmt.Errorf("page %s", strings.TrimPrefix(err.Error(), "template: "))
			}
		}
		p.tmpl[k], p.policy[k] = t, securityPolicy(page.Bytes())
	}
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("page templates: %w", err)
		}
	}
	for f := range p.busy {
		d := Page{Status: 503, Title: http.StatusText(503), Reason: "The proxy is busy. Try again in a moment."}
		p.busy[f].ctype, p.busy[f].body = p.Render(Error, Form(f), &d)
	}
	return p, nil
}

// Policy returns the value of Content-Security-Policy for pages of a kind. They load nothing
// and run only the scripts of their template, which may request the gateway's path on the same
// host. They cannot be framed, because a click could then be captured, except in the form Frame.
func (p *Set) Policy(k Kind, f Form) string {
	switch f {
	case Document:
		return p.policy[k]
	case Frame:
		return "default-src 'none'; base-uri 'none'; form-action 'none'; style-src" + hashesOf([]byte("<style>"+frameStyle+"</style>"), "style")
	}
	return ""
}

// securityPolicy returns a policy that allows a page its own style and script elements, and
// pictures inside it.
func securityPolicy(page []byte) string {
	form := "'none'"
	if bytes.Contains(page, []byte("<form")) {
		form = "'self'" // votes go to the gateway's path on the same host, and a form is sent again to where it went
	}
	policy := "default-src 'none'; img-src data:; base-uri 'none'; form-action " + form + "; frame-ancestors 'none'"
	if hashes := hashesOf(page, "style"); hashes != "" {
		policy += "; style-src" + hashes
	}
	if hashes := hashesOf(page, "script"); hashes != "" {
		policy += "; connect-src 'self'; script-src" + hashes
	}
	return policy
}

// hashesOf returns the sources, in the form of a policy, for inline elements of a name.
func hashesOf(page []byte, name string) (all string) {
	for _, part := range bytes.Split(page, []byte("<"+name))[1:] {
		_, part, _ = bytes.Cut(part, []byte(">"))
		if text, _, ok := bytes.Cut(part, []byte("</"+name)); ok {
			sum := sha256.Sum256(text)
			all += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
	}
	return all
}

// Busy returns the page for a request for which there was no capacity. It is rendered in
// advance, because there may be thousands of them.
func (p *Set) Busy(f Form) (ctype string, body []byte) { return p.busy[f].ctype, p.busy[f].body }

// Why explains the verdict to a person. Lists, phrases and lines are for the operator: they
// are in the event.
func Why(t *filter.Transaction, say *text.Texts) string {
	r := &t.Verdict.Reason
	f := &r.Finding
	switch {
	case f.Check == "certificate":
		explain := intercept.Fault{Kind: intercept.Kind(f.Category)}.Explain(t.Host)
		return say.Say("why.certificate", "detail", strings.TrimSuffix(say.Message(explain), "."))
	case f.Check == "policy" && t.Verdict.After > 0:
		return say.Say("why.limit", "detail", say.Message(f.Evidence))
	case r.Policy == "":
		return say.Say("why.nobody")
	case f.Score > 0:
		score := strconv.Itoa(f.Score)
		if kinds := contentKinds(t.Findings, f); kinds != "" {
			return say.Say("why.content", "kinds", kinds, "score", score)
		}
		return say.Say("why.score", "score", score)
	case f.Category != "" && f.Check != "":
		return say.Say("why.category", "category", f.Category)
	case r.Rule != "":
		return say.Say("why.rule", "rule", r.Rule)
	}
	return ""
}

// contentKinds returns the subjects of a scored page: the category that decided, or if that is
// the total of its check, the others with the greatest weights.
func contentKinds(all []filter.Finding, decided *filter.Finding) string {
	if decided.Category != decided.Check {
		return decided.Category
	}
	var of []filter.Finding
	for _, f := range all {
		if f.Check == decided.Check && f.Category != decided.Category && f.Score > 0 {
			of = append(of, f)
		}
	}
	slices.SortStableFunc(of, func(a, b filter.Finding) int { return b.Score - a.Score })
	var names []string
	for _, f := range of[:min(3, len(of))] {
		names = append(names, f.Category)
	}
	return strings.Join(names, ", ")
}

// Report returns the next progress report for a page of the kind Wait. The page ends with a
// report that is neither receiving nor checked.
func (p *Set) Report(d *Page) []byte {
	var b bytes.Buffer
	if err := p.tmpl[Wait].ExecuteTemplate(&b, "state", d); err != nil {
		return fmt.Appendf(nil, "<p>%s</p>", template.HTMLEscapeString(d.Progress())) // New ran it, but a template may fail with other data
	}
	return b.Bytes()
}

func (d *Page) json(k Kind) []byte {
	b, err := json.Marshal(struct {
		Action   string `json:"action"`
		Status   int    `json:"status"`
		Reason   string `json:"reason,omitempty"` // of an error; else why
		URL      string `json:"url,omitempty"`
		Category string `json:"category,omitempty"`
		Policy   string `json:"policy,omitempty"`
		Rule     string `json:"rule,omitempty"`
		ID       string `json:"id"`
		Contact  string `json:"contact,omitempty"`
		Continue string `json:"continue,omitempty"`
		After    int64  `json:"retry_after,omitempty"` // seconds
		User     string `json:"user,omitempty"`
		Vote     string `json:"vote,omitempty"`
		Token    string `json:"token,omitempty"`

		Quotas []filter.Balance `json:"quotas,omitempty"`
	}{kinds[k], d.Status, cmp.Or(d.Reason, d.Why), d.URL, d.Category, d.Policy, d.Rule, d.ID, d.Contact, d.Continue, int64(d.After / time.Second), d.User, d.Vote, d.Token, d.Quotas})
	if err != nil {
		return []byte("{}")
	}
	return append(b, '\n')
}
