package document

import (
	"shuultuur/content/data"
	"shuultuur/content/limit"
	"shuultuur/content/prose"
)

// A cborReader reads a body of CBOR: as it comes like any data for programs, and its strings
// once it is complete.
type cborReader struct{ wholeReader }

// Write implements [Reader].
func (c *cborReader) Write(p []byte) {
	c.source.Out.Write(p, prose.PlainText)
	c.wholeReader.Write(p)
}

// readCBOR adds the strings of a body.
func readCBOR(s *Source, p []byte) limit.Reason {
	f := s.Out
	f.Flush()
	work := data.CBORWork{Bound: s.Work}
	data.WalkCBOR(p, 1, 0, &work, func(_ uint64, v []byte) {
		if inner := data.TextOfBase64(v); inner != nil {
			v = inner
		}
		f.Blank()
		f.Write(v, prose.PlainText)
		f.Flush()
	})
	f.Blank()
	if work.Lost {
		return limit.Intricate
	}
	return limit.AllRead
}
