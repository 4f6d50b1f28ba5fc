package conversation

import (
	"bytes"
	"slices"

	"shuultuur/content/data"
	"shuultuur/content/limit"
)

// Lines frames JSON texts on one line each (NDJSON), in which assistants send their answers
// word by word. A message consists of all complete lines available.
type Lines struct {
	data []byte
	over bool
	sniffer
}

// Next implements [Framer].
func (l *Lines) Next(p []byte) (n int, m Message, whole bool, err error) {
	if slices.ContainsFunc(p, l.isBinary) {
		return 0, m, false, errNoText
	}
	end := bytes.LastIndexByte(p, '\n') + 1
	whole = end > 0
	if !whole {
		end = len(p)
	}
	keep := min(end, data.MostUnpacked-len(l.data))
	l.over = l.over || keep < end
	if l.data = append(l.data, p[:keep]...); whole {
		m = l.Finish()
	}
	return end, m, whole, nil
}

// Finish implements [Framer].
func (l *Lines) Finish() Message {
	m := Message{Text: true, Data: l.data}
	if l.over {
		m.Unread = limit.TooLarge
	}
	*l = Lines{sniffer: l.sniffer}
	return m
}

// Part implements [Framer].
func (l *Lines) Part() (Message, bool) { return l.Finish(), true }
