package markup

import (
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/content/prose"
)

// A Source is what a document in markup is part of.
type Source struct {
	Work    *limit.Work // of the body
	Scripts bool        // strings of scripts count as text
	Deepest bool        // no document within this one is read
	Outer   Outer
}

// An Outer is the body around a document.
type Outer interface {
	// Document adds to f the text of a document within this one, and reports whether some of it
	// was not read.
	Document(f *prose.Flow, h *media.Head, p []byte, scripts bool) (lost bool)
}

const (
	maxAside = 64 << 10  // of text set aside; more joins the text at once
	maxNote  = 1 << 20   // of a document in an attribute or raw text
	keptNote = 256 << 10 // of its memory, for the next page

	mostStates = 8 // in succession for one byte
)
