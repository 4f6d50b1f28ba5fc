package vote

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"time"

	"html/template"

	"shuultuur/text"
)

//go:embed page.html
var pageText string

var pages = text.NewPage(func() string { return pageText }, func(_ *text.Texts, source string) *template.Template {
	t := template.New("").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(text.Style) }})
	return template.Must(template.Must(t.Parse(text.Parts)).New("page").Parse(source))
})

// page renders a page for a person. The script of the block page takes what it shows from here.
// stands says how the vote stands; title, label and link are keys of t; says is text in the
// language of t, or an error in English.
func page(t *text.Texts, stands standing, title, says, label, link string) []byte {
	var b bytes.Buffer
	err := pages.In(t).Execute(&b, struct {
		Over, Refused            bool
		Title, Text, Label, Link string
	}{stands != waits, stands == refused, t.Say(title), says, t.Say(label), link})
	if err != nil { // cannot happen: the page gets valid texts
		return []byte(says)
	}
	return b.Bytes()
}

// A standing says how a vote stands.
type standing uint8

const (
	waits    standing = iota // its page leads to the answer
	answered                 // its page leads to what was asked for, if it is open
	refused                  // it was not taken
)

func (s *State) json() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte("{}\n")
	}
	return append(b, '\n')
}

// sentence tells the voter the state of the vote.
func (s *State) sentence(t *text.Texts) string {
	d := s.Decision
	if d == nil {
		return t.Say("Nobody has answered yet.")
	}
	return d.Answer(t)
}

// public returns a decision as voters may see it, without the names of the person who
// decided and of the person it is for.
func (d *Decision) public() *Decision {
	p := *d
	p.By = ""
	if p.Who != "" {
		p.Who = "some"
	}
	return &p
}

// Answer returns a decision in words for a voter. It contains no names.
func (d *Decision) Answer(t *text.Texts) string {
	says := ""
	switch {
	case d.Action == More:
		says = t.Say("There are 15 more minutes today.")
	case d.Action == Keep:
		says = t.Say("Nothing changes for {site}.", "site", d.Site)
	case d.Action == Open && d.Who == "":
		says = t.Say("{site} is open for everyone.", "site", d.Site)
	case d.Action == Open:
		says = t.Say("{site} is open for some people here.", "site", d.Site)
	case d.Action == Block && d.Who == "":
		says = t.Say("{site} is closed for everyone.", "site", d.Site)
	case d.Action == Block:
		says = t.Say("{site} is closed for some people here.", "site", d.Site)
	}
	if !d.Until.IsZero() {
		says += " " + t.Say("This holds until {time}.", "time", d.Until.Format(time.DateTime))
	}
	if d.Reason != "" {
		says += " " + d.Reason
	}
	if !d.Ended.IsZero() {
		says += " " + t.Say("This was taken back at {time}.", "time", d.Ended.Format(time.DateTime))
	}
	return says
}

func (d *Decision) scope() string {
	if d.Who == "" {
		return "everyone"
	}
	return d.Who
}
