package markup

import (
	"strings"

	"shuultuur/content/prose"
)

// This file handles slots: a declarative shadow root shows the children of its host in place of
// its slots, in their order (HTML section 4.12.4.2). Only text beside a slot can read otherwise
// than in the source, so of each text between two of them the beginning and the end are kept,
// and what they are together is added at the end of the host.

// mostSlotted is the number of texts and slots that are kept for open hosts.
const mostSlotted = 32 << 10

// A slotted is a text, or the begin or end of a slot.
type slotted struct {
	kind slottedKind
	text string // all of it, or the first bytes of a long one; or the name of the slot
	end  string // the last bytes of a long one
}

type slottedKind uint8

const (
	slotText slottedKind = iota
	slotBegin
	slotEnd
)

// A slotHost is an open element with a declarative shadow root.
type slotHost struct {
	key      [2]uint64
	inRoot   bool
	root     []slotted
	children map[string][]slotted // by the slot that they ask for

	slot  string    // the slot that the current child asks for, or unshown
	child [2]uint64 // its name, zero between those that ask for one or show nothing
	deep  int       // number of open elements of its name in it
}

// slots are the open hosts of a page.
type slots struct {
	hosts  []*slotHost // those whose shadow root is open
	open   []*slotHost // all
	asks   string      // value of the current tag's attribute slot
	called string      // of a slot's attribute name
	from   int         // where the current text begins, counted from the beginning of all text
	kept   int         // number of texts and slots
	lost   bool        // there were too many
}

// unshown is in place of the slot that a child asks for which shows nothing.
const unshown = "\x00"

// take keeps the text of f since the last text or slot, with the settled end of a word.
func (s *slots) take(f *prose.Flow) {
	if len(s.open) > 0 {
		f.Settle()
		s.takeUpTo(f, len(f.B))
	}
}

// takeUpTo is take for text up to a position.
func (s *slots) takeUpTo(f *prose.Flow, to int) {
	if from := prose.CharFrom(f.B, f.Index(s.from)); from < to && len(s.open) > 0 {
		s.keep(slotted{text: string(f.B[from:to])})
		s.from = f.Position() - len(f.B) + to
	}
}

// add adds a text to a text. The result does not depend on how it was divided.
func (s *slotted) add(other slotted) {
	if text := s.text + other.text; s.end == "" && len(text) <= 2*prose.LongestWord && other.end == "" {
		s.text = text
		return
	}
	if s.end == "" {
		s.text, s.end = s.text+other.text, s.text
		s.text = s.text[:prose.CharFrom(s.text, prose.LongestWord)]
	}
	s.end += other.text + other.end
	s.end = s.end[prose.CharFrom(s.end, len(s.end)-prose.LongestWord):]
}

// shows returns the text with what is left out in a long one as a blank, with whole words.
func (s *slotted) shows() string {
	if s.end == "" {
		return s.text
	}
	return s.text[:strings.LastIndexByte(s.text, ' ')+1] + " " + s.end[strings.IndexByte(s.end, ' ')+1:]
}

// keep adds to what the innermost host shows.
func (s *slots) keep(all ...slotted) {
	if len(s.open) == 0 {
		return
	}
	h := s.open[len(s.open)-1]
	if h.slot == unshown {
		return
	}
	to := h.root
	if !h.inRoot {
		to = h.children[h.slot]
	}
	for _, one := range all {
		if last := len(to) - 1; one.kind == slotText && last >= 0 && to[last].kind == slotText {
			to[last].add(one)
			continue
		}
		if one.kind == slotText && one.end == "" { // it may be long
			text := one
			one.text = ""
			one.add(text)
		}
		if s.kept == mostSlotted {
			s.lost = true
			break
		}
		s.kept++
		to = append(to, one)
	}
	if h.inRoot {
		h.root = to
	} else {
		h.children[h.slot] = to
	}
}

// close ends an element with a shadow root, and those in it. It returns what the outermost of all
// shows; ok is false if it is not the outermost, or shows nothing that the text has otherwise.
func (s *slots) close(f *prose.Flow, h *slotHost) (text string, ok bool) {
	for ended := false; !ended && len(s.open) > 0; {
		s.take(f)
		last := s.open[len(s.open)-1]
		ended = last == h
		s.open = s.open[:len(s.open)-1]
		if n := len(s.hosts); n > 0 && s.hosts[n-1] == last { // its shadow root ends with it
			s.hosts = s.hosts[:n-1]
		}
		shown := last.shown()
		s.kept = max(0, s.kept-len(shown))
		s.from = f.Position()
		if len(s.open) > 0 {
			s.keep(shown...)
			continue
		}
		s.kept = 0
		var b strings.Builder
		for _, one := range shown {
			if one.kind == slotText {
				b.WriteString(one.shows())
			}
		}
		text, ok = b.String(), len(shown) > 1 || len(last.root) > 1
	}
	return text, ok
}

// shown returns the content of the shadow root with the children of the host in its slots. A slot
// without children shows its own content.
func (h *slotHost) shown() (all []slotted) {
	within := 0 // depth in a slot whose content is replaced
	for _, s := range h.root {
		switch {
		case within > 0 && s.kind == slotBegin:
			within++
		case within > 0 && s.kind == slotEnd:
			within--
		case within > 0 || s.kind == slotEnd:
		case s.kind == slotText:
			all = append(all, s)
		case len(h.children[s.text]) > 0:
			all = append(all, h.children[s.text]...)
			delete(h.children, s.text) // the first slot of a name has them
			within = 1
		}
	}
	return all
}
