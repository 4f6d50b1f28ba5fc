// Package document reads documents that hold texts or other documents: PDF, RTF, office files and books,
// archives, mail and forms, CBOR.
//
// A [Reader] gets the decoded bytes of a document as they arrive, and writes its text to the flow of its
// [Source]. What the document holds (a member of an archive, a part of a mail, an attached file) it
// describes by a [media.Head] and hands to the body around it ([Outer]), which reads it like any other
// body. PDF and office files are kept until they are complete, within the limits of the source; larger office
// files are read as they come.
package document

import (
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/content/prose"
)

// A Source is a document that is read, with what its reader shares with the body that it came in.
type Source struct {
	Head    *media.Head
	Limits  limit.Limits
	Work    *limit.Work
	Room    *int64      // decoded bytes left for the archives around this one, nil in the outermost
	Packed  *bool       // to be set when the document is a software package
	Out     *prose.Flow // gets the text
	Deepest bool        // so many documents are around this one that no part of it is read
	Watcher PartWatcher // gets the parts of a multipart body, nil for none
	Outer   Outer
}

// open begins a part whose text joins that of the document.
func (s *Source) open(h *media.Head) Part { return s.Outer.Open(h, Inside{Out: s.Out}) }

// An Outer is the body that a document came in.
type Outer interface {
	// Stop says that something is not read, and why.
	Stop(why limit.Reason)
	// Open begins a document within this one. It returns nil if that has no text, or is nested too
	// deeply; the latter stops the body if the part may have text.
	Open(h *media.Head, in Inside) Part
}

// An Inside says how a part is read.
type Inside struct {
	Out    *prose.Flow // gets the text
	Room   *int64      // decoded bytes left for archives
	Packed *bool       // of the document, if the part is the whole of it; else nil
	Office bool        // the part belongs to an office document
}

// A Part is a document within a document.
type Part interface {
	// Write reads the next bytes.
	Write(p []byte)
	// Close ends the part and returns why not all of it was read.
	Close() limit.Reason
	// Drop ends the part without reading the rest.
	Drop()
}

// A Reader extracts the text of a document that arrives in pieces.
type Reader interface {
	// Write reads the next bytes.
	Write(p []byte)
	// Finish reads what depends on the end.
	Finish()
	// Close drops what has not ended.
	Close()
}

// New returns the reader of a document in a format from [media.Members] on. fields says that a
// multipart body begins with fields, as web archives do.
func New(s *Source, how media.Format, fields bool) Reader {
	w := &wholeReader{source: s, most: int(s.Limits.Ends)}
	if n := s.Limits.Whole; n > 0 {
		w.most = int(n)
	}
	switch how {
	case media.Members:
		return newMemberReader(s)
	case media.MIME:
		return newMIMEReader(s, fields)
	case media.RTF:
		return newRTFReader(s)
	case media.CBOR:
		w.read = readCBOR
		return &cborReader{*w}
	case media.PDF:
		w.read = readPDF
	default:
		w.read = readArchive
		w.most = min(w.most, limit.DefaultEnds) // a longer one can be read as it comes
		return &officeReader{wholeReader: *w}
	}
	return w
}
