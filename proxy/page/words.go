package page

import (
	"html/template"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/intercept"
)

// This file has what the built-in pages say to a person: whole sentences, and for a child others
// than for an adult. Text for programs and terminals is in form.go.

// Headline returns the heading of a block page.
func (d *Page) Headline() template.HTML {
	switch {
	case d.Text != "":
		return escaped(d.Text)
	case d.used() != nil:
		return escaped(d.Say("quota.over", "what", d.What(*d.used())))
	case d.Check == "certificate":
		return d.about(d.Say("block.certificate"))
	case d.speaksToChild() && d.topic(d.Category) != "":
		return escaped(d.Say("block.about", "topic", d.topic(d.Category)))
	case d.speaksToChild() || d.Host == "":
		return escaped(d.Say("block.title"))
	}
	return d.about(d.Say("block.closed"))
}

// Question returns the heading of a warn page.
func (d *Page) Question() template.HTML { return d.about(d.Say("warn.title")) }

// File returns the heading of a page that waits for a file.
func (d *Page) File() template.HTML {
	if u, err := url.Parse(d.URL); err == nil {
		if name := path.Base(u.Path); strings.Contains(name, ".") && len(name) <= 80 {
			return escaped(d.Say("wait.file", "file", graphic(name)))
		}
	}
	return escaped(d.Say("wait.title"))
}

// ReasonOf returns the sentence below the heading of a block page.
func (d *Page) ReasonOf() template.HTML {
	switch {
	case d.used() != nil && !d.used().Until.IsZero():
		return escaped(d.Say("quota.day", "time", d.used().Until.Format("15:04")))
	case d.Check == "certificate":
		return escaped(d.Message(intercept.Fault{Kind: intercept.Kind(d.Category)}.Explain(d.Host)))
	case d.speaksToChild() && d.Name != "":
		return escaped(d.Say("block.keeps", "name", d.Name))
	case d.speaksToChild():
		return escaped(d.Say("block.kept"))
	case d.Why == "":
		return d.Sentence("block.text")
	}
	return escaped(d.Say("block.because", "why", d.Why))
}

// speaksToChild reports whether the page is for a child who is not to be told what a machine found.
// How long to wait, and what is wrong with a server, is said to all alike.
func (d *Page) speaksToChild() bool { return d.Child && d.After == 0 && d.Check != "certificate" }

// about returns a text with the host at {host}, which is not mixed with text of another direction.
func (d *Page) about(says string) template.HTML {
	before, after, _ := strings.Cut(says, "{host}")
	if d.Host == "" {
		return escaped(before + d.Say("page") + after)
	}
	return escaped(before) + "<bdi>" + escaped(d.Host) + "</bdi>" + escaped(after)
}

func escaped(says string) template.HTML { return template.HTML(template.HTMLEscapeString(says)) }

// topic returns what a page of a category is about, in the words of a child; "" where the name of
// the category would not help, or is not for children.
func (d *Page) topic(category string) string {
	switch strings.ToLower(category) {
	case "gambling":
		return d.Say("topic.gambling")
	case "games", "gaming":
		return d.Say("topic.games")
	case "video", "videos", "streaming":
		return d.Say("topic.video")
	case "social", "social-networks", "social_networks", "socialnet":
		return d.Say("topic.social")
	case "drugs":
		return d.Say("topic.drugs")
	case "violence", "weapons", "aggressive":
		return d.Say("topic.violence")
	}
	return ""
}

// used returns the balance that is used up, where that is why a page is closed.
func (d *Page) used() *filter.Balance {
	if d.Category != "quota" {
		return nil
	}
	if i := slices.IndexFunc(d.Quotas, func(b filter.Balance) bool { return b.Most > 0 && b.Left <= 0 }); i >= 0 {
		return &d.Quotas[i]
	}
	return nil
}

// WantsTime reports whether the page is closed because minutes are used up, or at this hour, so that more
// time can be asked for.
func (d *Page) WantsTime() bool {
	b := d.used()
	return d.Hours || b != nil && b.Unit == "minutes"
}

// What returns what a balance is of.
func (d *Page) What(b filter.Balance) string {
	if b.Of == "everything" {
		return d.Say("quota.everything")
	}
	if topic := d.topic(b.Of); topic != "" {
		return topic
	}
	return b.Of
}

// LeftOf returns what is left of a balance as a sentence.
func (d *Page) LeftOf(b filter.Balance) string {
	switch {
	case b.Most > 0 && b.Unit == "minutes":
		return d.Say("quota.minutes", "left", b.Left, "most", b.Most)
	case b.Most > 0 && b.Unit == "bytes":
		return d.Say("quota.bytes", "left", megabytes(b.Left), "most", megabytes(b.Most))
	}
	return b.Text
}

// Use returns a balance as a line of a list.
func (d *Page) Use(b filter.Balance) string { return d.What(b) + ": " + d.LeftOf(b) }

func megabytes(n int64) string {
	precision := 0
	if n < 10e6 {
		precision = 1
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', precision, 64)
}

// A Ring is a balance as a picture: how much of a circle is used.
type Ring struct {
	What, Label, Left, Of string
	Used                  int // per cent
}

// Over returns the ring of the balance that is used up, nil if that is not why a page is closed.
func (d *Page) Over() *Ring {
	b := d.used()
	if b == nil {
		return nil
	}
	return d.ring(*b)
}

// Rings returns the rings of all balances whose most is known.
func (d *Page) Rings() (all []*Ring) {
	for _, b := range d.Quotas {
		if r := d.ring(b); r != nil {
			all = append(all, r)
		}
	}
	return all
}

func (d *Page) ring(b filter.Balance) *Ring {
	if b.Most <= 0 {
		return nil
	}
	r := &Ring{What: d.What(b), Label: d.Use(b), Used: int(min(100, max(0, 100*float64(b.Most-b.Left)/float64(b.Most))))}
	if b.Unit == "bytes" {
		r.Left, r.Of = megabytes(b.Left), d.Say("quota.ofbytes", "most", megabytes(b.Most))
		return r
	}
	r.Left, r.Of = strconv.FormatInt(b.Left, 10), d.Say("quota.ofminutes", "most", b.Most)
	return r
}
