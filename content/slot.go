package content

import (
	"bytes"
	"strings"
)

// This file handles slots: a declarative shadow root shows the children of its host in place of
// its slots, in their order (HTML section 4.12.4.2). Only text beside a slot can read otherwise
// than in the source, so of each text between two of them the beginning and the end are kept,
// and what they are together is added at the end of the host.

// mostSlotted is the number of texts and slots that are kept for open hosts.
const mostSlotted = 4 << 10

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
}

// unshown is in place of the slot that a child asks for which shows nothing.
const unshown = "\x00"

// openHost begins a shadow root. Text before it in its host is shown in the slot without a name.
func openHost(x *page) {
	for x.nStarts > 0 && isVoid(tags.find(x.starts[x.nStarts%uint(len(x.starts))].key, 0)) {
		x.nStarts--
	}
	host := x.starts[x.nStarts%uint(len(x.starts))]
	takeSlotted(x)
	h := &slotHost{key: [2]uint64{host.key, host.more}, children: map[string][]slotted{}}
	x.slots.hosts, x.slots.open = append(x.slots.hosts, h), append(x.slots.open, h)
	x.slots.from = host.at
	takeSlotted(x)
	h.inRoot = true
	x.between()
	x.slots.from = x.out.gone + len(x.out.b)
}

// closeRoot ends the innermost shadow root; the children of its host follow.
func closeRoot(x *page) *slotHost {
	takeSlotted(x)
	h := x.slots.hosts[len(x.slots.hosts)-1]
	x.slots.hosts = x.slots.hosts[:len(x.slots.hosts)-1]
	for x.slots.open[len(x.slots.open)-1] != h {
		closeHost(x, x.slots.open[len(x.slots.open)-1])
	}
	h.inRoot, h.slot, h.child = false, "", [2]uint64{}
	return h
}

// slotTag handles a tag while a host is open.
func slotTag(x *page, t *tag) {
	h := x.slots.open[len(x.slots.open)-1]
	key := [2]uint64{x.key, x.more}
	asks, called := x.slots.asks, x.slots.called
	x.slots.asks, x.slots.called = "", ""
	switch {
	case x.effect&hides != 0, t.name == "template" && !isShadow(x):
		asks = unshown
	case h.inRoot:
		asks = ""
	}
	if t.name == "slot" && x.end {
		takeSlotted(x)
		keepSlotted(x, slotted{kind: slotEnd})
	}
	switch {
	case x.end && h.child == key && h.deep == 0:
		takeSlotted(x)
		keepSlotted(x, slotted{text: edge(t)})
		h.child, h.slot = [2]uint64{}, ""
		keepSlotted(x, slotted{text: edge(t)})
	case x.end && h.child == key:
		h.deep--
	case !x.end && asks != "" && (h.child == key && h.slot != unshown || h.child == [2]uint64{}) && !isVoid(t):
		takeSlotted(x)
		h.child, h.slot, h.deep = key, asks, 0
		keepSlotted(x, slotted{text: edge(t)})
	case !x.end && h.child == key && !isVoid(t):
		h.deep++
	}
	if t.name == "slot" && !x.end {
		takeSlotted(x)
		keepSlotted(x, slotted{kind: slotBegin, text: called})
	}
}

// edge is what stands before and after an element.
func edge(t *tag) string {
	if t.kind == tagBlock {
		return " "
	}
	return ""
}

// takeSlotted keeps the text since the last of its kind, with the settled end of a word.
func takeSlotted(x *page) {
	if len(x.slots.open) > 0 {
		x.out.settle()
		takeUpTo(x, len(x.out.b))
	}
}

// takeUpTo is takeSlotted for text up to a position.
func takeUpTo(x *page, to int) {
	if from := max(0, x.slots.from-x.out.gone); from < to && len(x.slots.open) > 0 {
		keepSlotted(x, slotted{text: string(x.out.b[from:to])})
		x.slots.from = x.out.gone + to
	}
}

// add adds a text to a text. The result does not depend on how it was divided.
func (s *slotted) add(other slotted) {
	if text := s.text + other.text; s.end == "" && len(text) <= 2*longestWord && other.end == "" {
		s.text = text
		return
	}
	if s.end == "" {
		s.text, s.end = s.text+other.text, s.text
		s.text = s.text[:min(len(s.text), longestWord)]
	}
	s.end += other.text + other.end
	s.end = s.end[max(0, len(s.end)-longestWord):]
}

// shows returns the text with what is left out in a long one as a blank, with whole words.
func (s *slotted) shows() string {
	if s.end == "" {
		return s.text
	}
	return s.text[:strings.LastIndexByte(s.text, ' ')+1] + " " + s.end[strings.IndexByte(s.end, ' ')+1:]
}

// keepSlotted adds to what the innermost host shows.
func keepSlotted(x *page, all ...slotted) {
	if len(x.slots.open) == 0 {
		return
	}
	h := x.slots.open[len(x.slots.open)-1]
	if h.slot == unshown {
		return
	}
	to := h.root
	if !h.inRoot {
		to = h.children[h.slot]
	}
	for _, s := range all {
		if last := len(to) - 1; s.kind == slotText && last >= 0 && to[last].kind == slotText {
			to[last].add(s)
			continue
		}
		if s.kind == slotText && s.end == "" { // it may be long
			text := s
			s.text = ""
			s.add(text)
		}
		if x.slots.kept == mostSlotted {
			x.lost = true
			break
		}
		x.slots.kept++
		to = append(to, s)
	}
	if h.inRoot {
		h.root = to
	} else {
		h.children[h.slot] = to
	}
}

// closeHost ends an element with a shadow root, and those in it.
func closeHost(x *page, h *slotHost) {
	for ended := false; !ended && len(x.slots.open) > 0; {
		takeSlotted(x)
		last := x.slots.open[len(x.slots.open)-1]
		ended = last == h
		x.slots.open = x.slots.open[:len(x.slots.open)-1]
		shown := last.shown()
		x.slots.kept = max(0, x.slots.kept-len(shown))
		x.slots.from = x.out.gone + len(x.out.b)
		if len(x.slots.open) > 0 {
			keepSlotted(x, shown...)
			continue
		}
		x.slots.kept = 0
		var text strings.Builder
		for _, s := range shown {
			if s.kind == slotText {
				text.WriteString(s.shows())
			}
		}
		if len(shown) > 1 || len(last.root) > 1 {
			x.aside.blank()
			x.aside.b = append(x.aside.b, bytes.Join(bytes.Fields([]byte(text.String())), []byte{' '})...)
			x.aside.blank()
			x.spill()
		}
	}
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
