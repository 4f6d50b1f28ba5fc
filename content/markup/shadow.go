package markup

import (
	"shuultuur/content/element"
	"shuultuur/content/prose"
)

// This file handles declarative shadow roots; what their slots show is kept by slots.

// slotTag handles a tag while a host is open.
func (x *page) slotTag(t *element.Tag) {
	h := x.slots.open[len(x.slots.open)-1]
	key := [2]uint64{x.key, x.more}
	asks, called := x.slots.asks, x.slots.called
	x.slots.asks, x.slots.called = "", ""
	switch {
	case x.effect&hides != 0, t.Name == "template" && !x.isShadow():
		asks = unshown
	case h.inRoot:
		asks = ""
	}
	if t.Name == "slot" && x.end {
		x.slots.take(&x.out)
		x.slots.keep(slotted{kind: slotEnd})
	}
	switch {
	case x.end && h.child == key && h.deep == 0:
		x.slots.take(&x.out)
		x.slots.keep(slotted{text: edge(t)})
		h.child, h.slot = [2]uint64{}, ""
		x.slots.keep(slotted{text: edge(t)})
	case x.end && h.child == key:
		h.deep--
	case !x.end && asks != "" && (h.child == key && h.slot != unshown || h.child == [2]uint64{}) && !element.IsVoid(t):
		x.slots.take(&x.out)
		h.child, h.slot, h.deep = key, asks, 0
		x.slots.keep(slotted{text: edge(t)})
	case !x.end && h.child == key && !element.IsVoid(t):
		h.deep++
	}
	if t.Name == "slot" && !x.end {
		x.slots.take(&x.out)
		x.slots.keep(slotted{kind: slotBegin, text: called})
	}
}

// edge is what stands before and after an element.
func edge(t *element.Tag) string {
	if t.Kind == element.Block {
		return " "
	}
	return ""
}

// shadow begins or ends a declarative shadow root (HTML section 4.12.3): its text is shown in
// place of other text of the element around it.
func (x *page) shadow() {
	if !x.end {
		x.openHost()
		return
	}
	f := &x.out
	f.Settle()
	host := x.closeRoot()
	s := styledElement{key: host.key[0], more: host.key[1], effect: hides, host: host}
	s.words = [2]prose.Reading{f.Begun(0), f.Begun(1)}
	f.Split()
	s.start = f.Position()
	x.slots.from = s.start
	if len(x.opened) == mostOpen {
		x.forget(0)
	}
	x.opened = append(x.opened, s)
}

// openHost begins a shadow root. Text before it in its host is shown in the slot without a name.
func (x *page) openHost() {
	for x.nStarts > 0 && element.IsVoid(element.Find(x.starts[x.nStarts%uint(len(x.starts))].key, 0)) {
		x.nStarts--
	}
	host := x.starts[x.nStarts%uint(len(x.starts))]
	x.slots.take(&x.out)
	h := &slotHost{key: [2]uint64{host.key, host.more}, children: map[string][]slotted{}}
	x.slots.hosts, x.slots.open = append(x.slots.hosts, h), append(x.slots.open, h)
	x.slots.from = host.at
	x.slots.take(&x.out)
	h.inRoot = true
	x.between()
	x.slots.from = x.out.Position()
}

// closeRoot ends the innermost shadow root; the children of its host follow.
func (x *page) closeRoot() *slotHost {
	x.slots.take(&x.out)
	h := x.slots.hosts[len(x.slots.hosts)-1]
	x.slots.hosts = x.slots.hosts[:len(x.slots.hosts)-1]
	for x.slots.open[len(x.slots.open)-1] != h {
		x.closeHost(x.slots.open[len(x.slots.open)-1])
	}
	h.inRoot, h.slot, h.child = false, "", [2]uint64{}
	return h
}

// mostHosts is the limit of nested shadow roots.
const mostHosts = 16

// isShadow reports whether the current template begins or ends a shadow root.
func (x *page) isShadow() bool {
	if x.end {
		return len(x.slots.hosts) > 0 && x.hidden == ""
	}
	which := string(x.which[:x.nWhich])
	if which != "open" && which != "closed" || x.hidden != "" {
		return false
	}
	x.lost = x.lost || len(x.slots.hosts) == mostHosts
	return len(x.slots.hosts) < mostHosts
}
