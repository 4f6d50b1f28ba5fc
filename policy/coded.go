package policy

import "shuultuur/content"

// Parts of a form may claim a transfer coding. Most servers do not undo it (RFC 7578,
// 4.7), so rules see such a part decoded and as it came.

// maxKept is how many bytes of a coded part are kept until it is known whether they are
// base64. A part that is no longer is read as it came in any case.
const maxKept = 4 << 10

// coded is the part at hand as it came, where it has a transfer coding.
type coded struct {
	typ   string       // declared
	file  *sentFile    // nil where the part is no file
	kept  []byte       // the last bytes, until text is read
	long  bool         // bytes were dropped from kept
	text  content.Body // its words, where it is not base64
	words *uploadScan  // what is in text; nil until it is read
	check base64Check
}

// Coded implements [content.PartWatcher].
func (s *uploadScan) Coded(p []byte) {
	c := &s.coded
	if s.file != nil {
		if c.file == nil {
			c.file = s.begin(s.file.typ, s.file.name)
		}
		c.file.take(p)
	}
	if len(s.u.words) == 0 {
		return
	}
	if c.words != nil {
		s.readCoded(p)
		return
	}
	c.kept = append(c.kept, p...)
	if !c.check.write(p) {
		s.readCoded(c.kept)
		return
	}
	if n := len(c.kept) - maxKept; n > 0 {
		c.kept, c.long = c.kept[:copy(c.kept, c.kept[n:])], true
	}
}

// readCoded reads words in bytes of the part as it came.
func (s *uploadScan) readCoded(p []byte) {
	c := &s.coded
	if c.words == nil {
		h := content.Describe(c.typ, "")
		h.SetUse(content.Program)
		c.text.Reset(h, content.Limits{})
		c.words = c.text.Follow(&uploads{words: s.u.words}).(*uploadScan)
		c.words.found = s.found
	}
	c.text.Append(p)
	c.text.Forget()
}

// endCoded ends the part as it came.
func (s *uploadScan) endCoded() {
	c := &s.coded
	if c.words == nil && !c.long && len(c.kept) > 0 {
		s.readCoded(c.kept)
	}
	if c.words != nil {
		c.text.Finish()
		c.text.Forget()
		c.text.Release()
	}
	if c.file != nil {
		c.file.ended = true
	}
	c.typ, c.file, c.kept, c.long, c.words, c.check = "", nil, c.kept[:0], false, nil, base64Check{}
}

// A base64Check says whether bytes that come in pieces can be lines of base64, which
// encoders end after whole groups of four.
type base64Check struct {
	n      int // characters of the group
	padded bool
	wrong  bool
}

// write takes the next bytes, and reports whether all can be base64 so far.
func (b *base64Check) write(p []byte) bool {
	for _, c := range p {
		switch {
		case c == '\r' || c == '\n':
			b.wrong = b.wrong || b.n != 0
		case c == '=':
			b.wrong = b.wrong || b.n < 2 && !b.padded
			b.padded, b.n = true, (b.n+1)&3
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '+', c == '/':
			b.wrong = b.wrong || b.padded
			b.n = (b.n + 1) & 3
		default:
			b.wrong = true
		}
	}
	return !b.wrong
}
