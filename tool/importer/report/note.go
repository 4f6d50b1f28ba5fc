package report

import (
	"fmt"
	"strings"
)

// NotKnown is the reason for an option of e2guardian or squidGuard about which nothing is known.
const NotKnown = "there is no counterpart"

// NoneOfOurs is the reason for an option about which nothing is known.
const NoneOfOurs = "there is no counterpart, and nothing has to be done"

// Reasons say why options with these beginnings are lost.
type Reasons []struct{ Prefix, Why string }

// Of returns the first reason for an option, or "".
func (all Reasons) Of(option string) string {
	for _, x := range all {
		if strings.HasPrefix(option, x.Prefix) {
			return x.Why
		}
	}
	return ""
}

func Same(ours string) *Note         { return &Note{Kind: Carried, Ours: ours} }
func Differs(ours, why string) *Note { return &Note{Kind: Changed, Ours: ours, Why: why} }
func None(why string) *Note          { return &Note{Kind: Lost, Why: why} }

// A Kind is the kind of a note. Notes are reported by kind.
type Kind int

const (
	Carried Kind = iota // an option, and its counterpart
	Changed             // carried over, but not quite the same
	Default             // an option that was left out, empty or off
	Lost                // an option that has no equivalent, and why
	Regexp              // an expression that does not compile
	Line                // a line of a list that is without effect, a duplicate, shadowed or odd
	Empty               // a list without entries
	kinds
)

var titles = [kinds]string{
	"Carried over", "Carried over with a difference", "Was at its default", "Lost, and what to do", "Expressions that do not compile",
	"Lines to look at", "Empty lists, left out",
}

func (k Kind) String() string { return titles[k%kinds] }

// A Place is a line of a file; what is its text.
type Place struct {
	File string
	Line int // 0 for the whole file
	Text string
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// An Effect is what a difference between the two programs does to clients.
type Effect uint8

const (
	Neither Effect = iota
	Opens          // something is allowed that was refused
	Closes         // something is refused that was allowed
)

// A Note is one thing an administrator should know about the import.
type Note struct {
	Kind
	Place
	What string // the option or line
	Ours string // its place in our settings
	Why  string
	Mend string // the suggested replacement

	Effect Effect
}

// Opening says of a note that what it is about allows something that was refused.
func (n *Note) Opening() *Note { n.Effect = Opens; return n }

// Closing says of a note that what it is about refuses something that was allowed.
func (n *Note) Closing() *Note { n.Effect = Closes; return n }

func (n Note) Where() string { return n.Place.String() }

func (n Note) String() string {
	s := n.Where() + ": " + n.What
	if n.Ours != "" {
		s += " → " + n.Ours
	}
	if n.Why != "" {
		s += ": " + n.Why
	}
	if n.Mend != "" {
		s += "; write " + n.Mend
	}
	return s
}

// Clip shortens a text of a note, which may be a line of a megabyte.
func Clip(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ByHand returns the note on a setting that has an equivalent, ours, but was
// not carried over.
func ByHand(ours, why string) *Note { return &Note{Kind: Lost, Ours: ours, Why: why} }

// NoBlock is the reason for a block that squidGuard does not know.
const NoBlock = "not a block of squidGuard 1.6"
