package document

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"mime"
	"path"
	"slices"
	"strings"

	"shuultuur/content/limit"
	"shuultuur/content/media"
)

// This file handles documents that can only be read when complete: archives of XML (office
// files, books) and PDF.

const (
	mostEntries = 2000
	mostEntry   = 32 << 20 // decoded bytes that are read of one entry
)

// A wholeReader keeps a document until it is complete.
type wholeReader struct {
	source *Source
	buf    []byte
	most   int
	read   func(s *Source, p []byte) limit.Reason
}

// Write implements [Reader].
func (w *wholeReader) Write(p []byte) {
	if room := w.most - len(w.buf); len(p) > room {
		w.source.Outer.Stop(limit.TooLarge)
		p = p[:room]
	}
	w.buf = append(w.buf, p...)
}

// Finish implements [Reader].
func (w *wholeReader) Finish() {
	if len(w.buf) == 0 {
		return
	}
	if why := w.read(w.source, w.buf); why != limit.AllRead {
		w.source.Outer.Stop(why)
	}
	w.buf = nil
}

// Close implements [Reader].
func (w *wholeReader) Close() {}

// readArchive reads the documents in an office file or book (Office Open XML, OpenDocument,
// EPUB).
func readArchive(s *Source, p []byte) limit.Reason {
	r, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		return limit.Cut
	}
	if len(r.File) > mostEntries {
		return limit.TooLarge
	}
	var wanted []*zip.File
	for _, f := range r.File {
		switch name := entryName(f.Name); {
		case name == "encryptedpackage", name == "meta-inf/encryption.xml":
			return limit.Encrypted
		case mayShow(name):
			wanted = append(wanted, f)
		}
	}
	if len(wanted) == 0 {
		return limit.UnsupportedType
	}
	slices.SortStableFunc(wanted, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	left := s.Limits.Decoded
	room := left // for nested archives
	why := limit.AllRead
	for _, f := range wanted {
		if f.Flags&1 != 0 {
			return limit.Encrypted
		}
		n, err := readEntry(s, f, min(left, mostEntry), &room)
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

// entryName returns the name by which lenient readers look up an entry.
func entryName(name string) string {
	return strings.TrimLeft(strings.ReplaceAll(strings.ToLower(name), "\\", "/"), "./")
}

// mayShow reports whether an entry of a document may contain visible text. Parts can have any
// name, so it only excludes those without text.
func mayShow(name string) bool {
	dir, file := path.Split(name)
	switch ext := path.Ext(file); {
	case file == "", file == "mimetype", file == "[content_types].xml", ext == ".rels", strings.HasSuffix(dir, "theme/"):
		return false
	case ext == ".xml":
		return !isStyle(dir, file)
	case ext == ".bin", ext == ".otf", ext == ".ttf", ext == ".odttf", ext == ".woff", ext == ".woff2", ext == ".emf", ext == ".wmf":
		return false
	default:
		return ext == ".svg" || !media.IsMedia(mime.TypeByExtension(ext))
	}
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
