package proxy

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
)

//go:embed pages/*.html
var builtin embed.FS

// Pages are the answers a client gets instead of what it asked for.
type Pages struct {
	contact string
	tmpl    [len(kinds)]*template.Template // by kind
	busy    [3]answer                      // by form
}

// A Page is what the templates are given. Every field may be empty.
type Page struct {
	Status   int
	Title    string // of the status: "Forbidden"
	Reason   string // one sentence, error pages only
	Why      string // block and warn pages: a clause, "it is in the category gambling"
	Host     string
	URL      string
	Policy   string
	Rule     string
	Category string
	Check    string
	Score    int
	Evidence string // what was found and where it is written: for administrators, not shown by default
	ID       string // of the transaction
	User     string
	Contact  string
	Continue string // warn page: where the button leads
	Time     time.Time
	After    time.Duration // limits and quotas: when to try again
	Quotas   []filter.Balance
}

// Again says when to try again, for a person: "in 5 minutes", "at 00:00".
func (d *Page) Again() string {
	switch at := d.Time.Add(d.After); {
	case d.After <= 0:
		return ""
	case d.After < 2*time.Minute:
		return fmt.Sprintf("in %d seconds", d.After/time.Second)
	case d.After < 2*time.Hour:
		return fmt.Sprintf("in %d minutes, at %s", (d.After+time.Minute-1)/time.Minute, at.Format("15:04"))
	default:
		return fmt.Sprintf("in %d hours, at %s", (d.After+time.Hour/2)/time.Hour, at.Round(time.Minute).Format("15:04"))
	}
}

// A form is how a page is put.
type form uint8

const (
	document form = iota // HTML
	object               // JSON
	picture              // one transparent pixel
)

// NewPages reads block.html, warn.html, error.html and quota.html
// (html/template, given a [Page]) from dir; those that are not there, or all
// when dir is "", are the built-in ones. All may use the built-in template
// "head". contact is whom to ask, shown on the pages.
func NewPages(dir, contact string) (*Pages, error) {
	p := &Pages{contact: contact}
	head, err := template.ParseFS(builtin, "pages/head.html")
	if err != nil {
		return nil, err
	}
	for k, name := range kinds {
		name += ".html"
		text, err := fs.ReadFile(builtin, "pages/"+name)
		if err != nil {
			return nil, err
		}
		where := name
		if dir != "" {
			own, err := os.ReadFile(filepath.Join(dir, name))
			switch {
			case err == nil:
				text, where = own, filepath.Join(dir, name)
			case !os.IsNotExist(err):
				return nil, fmt.Errorf("page template: %w", err)
			}
		}
		t, err := template.Must(head.Clone()).New(where).Parse(string(text)) // never executed, so it can be cloned
		if err != nil {
			return nil, fmt.Errorf("page %s", strings.TrimPrefix(err.Error(), "template: "))
		}
		// A field that does not exist is only found when the template runs.
		sample := Page{Status: 403, Title: "x", Reason: "x", Why: "x", Host: "x", URL: "http://x/", Policy: "x", Rule: "x", Category: "x",
			Check: "x", Score: 1, Evidence: "x", ID: "x", User: "x", Contact: "x", Continue: "http://x/", Time: time.Unix(0, 0), After: time.Minute, Quotas: []filter.Balance{{}}}
		for _, d := range []Page{sample, {}} {
			if err := t.Execute(&bytes.Buffer{}, &d); err != nil {
				return nil, fmt.Errorf("page %s", strings.TrimPrefix(err.Error(), "template: "))
			}
		}
		p.tmpl[k] = t
	}
	if dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("page templates: %w", err)
		}
	}
	for f := range p.busy {
		ctype, body := p.render(errorPage, form(f), &Page{Status: 503, Title: http.StatusText(503), Reason: "The proxy is busy. Try again in a moment."})
		p.busy[f] = newAnswer(503, ctype, body, "Retry-After: "+retryAfter)
	}
	return p, nil
}

// An answer is a response that lies ready, for a connection that stays open
// and for one that ends. It has no Date, which 5xx need not have (RFC 9110,
// 6.6.1).
type answer struct {
	keep, close []byte
	body        int // its length
}

func newAnswer(status int, ctype string, body []byte, field string) answer {
	make := func(last string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%s\r\nContent-Type: %s\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nContent-Length: %d\r\n%s\r\n%s",
			status, http.StatusText(status), field, ctype, len(body), last, body)
	}
	return answer{make(""), make("Connection: close\r\n"), len(body)}
}

// bytes are the answer, for HEAD without its body.
func (a *answer) bytes(keep, head bool) []byte {
	b := a.close
	if keep {
		b = a.keep
	}
	if head {
		b = b[:len(b)-a.body]
	}
	return b
}

// why says to a person why the verdict is what it is. Lists, phrases and the
// lines that gave them are for the operator: they are in the event.
func why(t *filter.Transaction) string {
	r := &t.Verdict.Reason
	f := &r.Finding
	switch {
	case f.Check == certificateCheck:
		explain := intercept.Fault{Kind: intercept.Kind(f.Category)}.Explain(t.Host)
		return "its certificate cannot be trusted: " + strings.TrimSuffix(explain, ".")
	case f.Check == "policy" && t.Verdict.After > 0:
		return f.Evidence
	case r.Policy == "":
		return "no policy covers your address"
	case f.Score > 0:
		score := fmt.Sprintf("(score %d)", f.Score)
		if kinds := contentKinds(t.Findings, f); kinds != "" {
			return "its content counts as " + kinds + " " + score
		}
		return "of what it says " + score
	case f.Category != "" && f.Check != "":
		return "it is in the category " + f.Category
	case r.Rule != "":
		return "the rule " + r.Rule + " says so"
	}
	return ""
}

// contentKinds names what a scored page is about: the category that decided,
// or where that is the total of its check, the weightiest of the others.
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

// pixel is a transparent GIF of 1×1.
const pixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// render makes a page.
func (p *Pages) render(k kind, f form, d *Page) (ctype string, body []byte) {
	d.Contact = p.contact
	switch f {
	case picture:
		return "image/gif", []byte(pixel)
	case object:
		return "application/json", d.json(k)
	}
	var b bytes.Buffer
	if err := p.tmpl[k].Execute(&b, d); err != nil {
		// NewPages ran it; but a template may fail for some data only.
		return "text/plain; charset=utf-8", fmt.Appendf(nil, "%d %s\n%s\n", d.Status, d.Title, d.ID)
	}
	return "text/html; charset=utf-8", b.Bytes()
}

func (d *Page) json(k kind) []byte {
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

		Quotas []filter.Balance `json:"quotas,omitempty"`
	}{kinds[k], d.Status, cmp.Or(d.Reason, d.Why), d.URL, d.Category, d.Policy, d.Rule, d.ID, d.Contact, d.Continue, int64(d.After / time.Second), d.User, d.Quotas})
	if err != nil {
		return []byte("{}")
	}
	return append(b, '\n')
}
