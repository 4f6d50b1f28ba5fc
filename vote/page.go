package vote

import (
	"bytes"
	"encoding/json"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

var pages = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; font: 1rem/1.55 system-ui, sans-serif }
main { max-width: 36rem }
p { overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{with .Link}}<p><a href="{{.}}">{{$.Label}}</a></p>
{{end}}</main>
</body>
</html>
`))

// page makes a page for a person.
func page(title, text, label, link string) []byte {
	var b bytes.Buffer
	err := pages.Execute(&b, struct{ Title, Text, Label, Link string }{title, text, label, link})
	if err != nil { // not possible: it is given texts
		return []byte(text)
	}
	return b.Bytes()
}

func (s *State) json() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte("{}\n")
	}
	return append(b, '\n')
}

// sentence says to the voter what has become of the vote.
func (s *State) sentence() string {
	d := s.Decision
	if d == nil {
		return "Your vote counts. Nobody has decided yet."
	}
	return d.Answer()
}

// public is what voters learn of a decision: not who has decided, nor which other
// person it is for.
func (d *Decision) public() *Decision {
	p := *d
	p.By = ""
	if p.Who != "" {
		p.Who = "some"
	}
	return &p
}

// Answer says to a voter what was decided. It names nobody.
func (d *Decision) Answer() string {
	whom := "everyone"
	if d.Who != "" {
		whom = "some people here"
	}
	text := ""
	switch d.Action {
	case Open:
		text = d.Site + " is open for " + whom
	case Block:
		text = d.Site + " is blocked for " + whom
	case Keep:
		text = "Nothing changes for " + d.Site
	}
	if !d.Until.IsZero() {
		text += " until " + d.Until.Format(time.DateTime)
	}
	text += "."
	if d.Reason != "" {
		text += " " + d.Reason
	}
	if !d.Ended.IsZero() {
		text += " This was taken back at " + d.Ended.Format(time.DateTime) + "."
	}
	return text
}

func (d *Decision) whom() string {
	if d.Who == "" {
		return "everyone"
	}
	return d.Who
}
