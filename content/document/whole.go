package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"

	"shuultuur/content/limit"
	"shuultuur/content/media"
)

// This file handles documents that can only be read when complete: archives of XML (office
// files, books) and PDF.

// mostEncryption is the length up to which it is read what is encrypted in a book.
const mostEncryption = 1 << 20

// claimStep is the memory that is claimed at once for a long document.
const claimStep = 4 << 20

// A wholeReader keeps a document until it is complete.
type wholeReader struct {
	source *Source
	buf    []byte
	most   int
	taken  int64 // of the memory for text, beyond what any document may have
	read   func(s *Source, p []byte) limit.Reason
}

// Write implements [Reader].
func (w *wholeReader) Write(p []byte) {
	if room := w.most - len(w.buf); len(p) > room {
		w.source.Outer.Stop(limit.TooLarge)
		p = p[:room]
	}
	if !w.claim(len(w.buf) + len(p)) {
		w.source.Outer.Stop(limit.NoCapacity)
		w.most = len(w.buf)
		return
	}
	w.buf = append(w.buf, p...)
}

// claim counts the memory of a document of n bytes that is longer than usual.
func (w *wholeReader) claim(n int) bool {
	more := int64(n-limit.DefaultEnds) - w.taken
	if more <= 0 || w.source.Limits.Text == nil {
		return true
	}
	more = (more + claimStep - 1) / claimStep * claimStep
	if !w.source.Limits.Text.Acquire(more) {
		return false
	}
	w.taken += more
	return true
}

func (w *wholeReader) release() {
	if w.buf = nil; w.taken > 0 {
		w.source.Limits.Text.Release(w.taken)
		w.taken = 0
	}
}

// Finish implements [Reader].
func (w *wholeReader) Finish() {
	if len(w.buf) == 0 {
		return
	}
	if why := w.read(w.source, w.buf); why != limit.AllRead {
		w.source.Outer.Stop(why)
	}
	w.release()
}

// Close implements [Reader].
func (w *wholeReader) Close() { w.release() }

// readArchive reads the documents in an office file or book (Office Open XML, OpenDocument,
// EPUB).
func readArchive(s *Source, p []byte) limit.Reason {
	r, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		return limit.Cut
	}
	var wanted []*zip.File
	for _, f := range r.File {
		switch name := entryName(f.Name); {
		case name == encryptedPackage, name == encryptionList && hidesText(f):
			return limit.Encrypted
		case mayShow(name):
			wanted = append(wanted, f)
		}
	}
	if len(wanted) == 0 {
		return limit.UnsupportedType
	}
	slices.SortStableFunc(wanted, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	words := slices.DeleteFunc(slices.Clone(wanted), func(f *zip.File) bool { return isNumbers(entryName(f.Name)) })
	wanted = append(words, slices.DeleteFunc(wanted, func(f *zip.File) bool { return !isNumbers(entryName(f.Name)) })...)
	left := s.Limits.Decoded
	room := left // for nested archives
	why := limit.AllRead
	if len(wanted) > mostMembers {
		why, wanted = limit.TooLarge, wanted[:mostMembers]
	}
	for _, f := range wanted {
		if f.Flags&1 != 0 {
			return limit.Encrypted
		}
		n, err := readEntry(s, f, left, &room)
		left -= n
		switch {
		case errors.Is(err, errMost):
			return limit.TooLarge
		case errors.Is(err, limit.ErrTookTooLong):
			return limit.TookTooLong
		case errors.Is(err, zip.ErrAlgorithm):
			why = limit.UnsupportedType
		case err != nil:
			why = limit.Cut
		}
	}
	return why
}

// Names of entries that say that others are encrypted: of Office Open XML, and of OpenDocument and
// EPUB.
const (
	encryptedPackage = "encryptedpackage"
	encryptionList   = "meta-inf/encryption.xml"
)

// hidesText reports whether an encryption list names an entry that may contain text, or cannot be
// read. Many books have fonts that are obfuscated, and nothing else.
func hidesText(f *zip.File) bool {
	in, err := f.Open()
	if err != nil {
		return true
	}
	defer in.Close()
	return listsText(in)
}

// listsText is hidesText for the content of the list.
func listsText(in io.Reader) bool {
	d := xml.NewDecoder(io.LimitReader(in, mostEncryption))
	for isXML := false; ; {
		t, err := d.RawToken()
		if err != nil {
			return err != io.EOF || !isXML || d.InputOffset() >= mostEncryption
		}
		e, ok := t.(xml.StartElement)
		isXML = isXML || ok
		if !ok || e.Name.Local != "CipherReference" {
			continue
		}
		for _, a := range e.Attr {
			name, err := url.PathUnescape(a.Value)
			if a.Name.Local == "URI" && (err != nil || mayShow(entryName(name))) {
				return true
			}
		}
	}
}

// An officeReader keeps an office file or book until it is complete, and reads a larger one as it
// comes: its pictures are not kept.
type officeReader struct {
	wholeReader
	members *memberReader // nil for one that is kept
}

// Write implements [Reader].
func (o *officeReader) Write(p []byte) {
	if o.members == nil && len(o.buf)+len(p) > o.most {
		o.members = newMemberReader(o.source)
		o.members.office = map[int64]bool{}
		o.members.Write(o.buf)
		o.release()
	}
	if o.members != nil {
		o.members.Write(p)
		return
	}
	o.wholeReader.Write(p)
}

// Finish implements [Reader].
func (o *officeReader) Finish() {
	if o.members != nil {
		o.members.Finish()
		return
	}
	o.wholeReader.Finish()
}

// Close implements [Reader].
func (o *officeReader) Close() {
	if o.members != nil {
		o.members.Close()
	}
	o.release()
}

// entryName returns the name by which lenient readers look up an entry.
func entryName(name string) string {
	return strings.TrimLeft(strings.ReplaceAll(strings.ToLower(name), "\\", "/"), "./")
}

// mayShow reports whether an entry of a document may contain visible text. Parts can have any
// name, so it only excludes those without text.
func mayShow(name string) bool {
	dir, file := path.Split(name)
	switch ext := path.Ext(file); {
	case file == "", file == "mimetype", file == "[content_types].xml", ext == ".rels", strings.HasSuffix(dir, "theme/"),
		name == encryptedPackage, name == encryptionList:
		return false
	case ext == ".xml":
		return !isStyle(dir, file)
	case ext == ".bin", ext == ".otf", ext == ".ttf", ext == ".odttf", ext == ".woff", ext == ".woff2", ext == ".emf", ext == ".wmf", ext == ".svm":
		return false
	default:
		return ext == ".svg" || !media.IsMedia(mime.TypeByExtension(ext))
	}
}

// isNumbers reports whether a part of an office file is a sheet or a copy of its cells: most of the
// text in them is in the list of strings, which may follow. They leave room for it.
func isNumbers(name string) bool {
	dir, _ := path.Split(name)
	return strings.HasSuffix(dir, "xl/worksheets/") || strings.HasSuffix(dir, "xl/pivotcache/")
}

// isStyle reports whether a part of an office file describes the appearance of
// other parts.
func isStyle(dir, file string) bool {
	switch file {
	case "styles.xml":
		return dir != "" // in OpenDocument it contains headers and footers
	case "settings.xml", "fonttable.xml", "websettings.xml":
		return true
	}
	return false
}

// isDocument reports whether a member of any archive is a visible part of an office file or
// book.
func isDocument(name string) bool {
	name = entryName(name)
	dir, file := path.Split(name)
	switch path.Ext(file) {
	case ".html", ".xhtml", ".htm", ".ncx", ".opf":
		return true
	case ".xml":
		for _, top := range [...]string{"word/", "ppt/", "xl/", "docprops/"} {
			if strings.HasPrefix(dir, top) {
				return mayShow(name)
			}
		}
	}
	return file == "content.xml" || file == "meta.xml" || name == "styles.xml"
}

func readEntry(s *Source, f *zip.File, most int64, room *int64) (n int64, err error) {
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	h := memberHead(f.Name)
	office := path.Ext(entryName(f.Name)) == ".xml"
	if office {
		h = media.Describe("application/xhtml+xml; charset=utf-8", "")
	}
	p := s.Outer.Open(h, Inside{Out: s.Out, Room: room, Office: office})
	if p == nil {
		return 0, nil
	}
	defer func() {
		if why := p.Close(); why != limit.AllRead && why != limit.UnsupportedType {
			s.Outer.Stop(why)
		}
	}()
	var block [16 << 10]byte
	for {
		k, err := in.Read(block[:])
		switch n += int64(k); {
		case n > most:
			return n, errMost
		case s.Work.Spend(k):
			return n, limit.ErrTookTooLong
		}
		p.Write(block[:k])
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
