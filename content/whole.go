package content

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"mime"
	"path"
	"slices"
	"strings"
)

// This file handles documents that can only be read when complete: archives of XML (office
// files, books) and PDF.

const (
	mostEntries = 2000
	mostEntry   = 32 << 20 // decoded bytes that are read of one entry
)

// A wholeReader keeps a document until it is complete.
type wholeReader struct {
	text *text
	buf  []byte
	most int
	read func(t *text, p []byte) Reason
}

func (w *wholeReader) write(p []byte) {
	if room := w.most - len(w.buf); len(p) > room {
		w.text.body.Stop(TooLarge)
		p = p[:room]
	}
	w.buf = append(w.buf, p...)
}

func (w *wholeReader) finish() {
	if len(w.buf) == 0 {
		return
	}
	if why := w.read(w.text, w.buf); why != AllRead {
		w.text.body.Stop(why)
	}
	w.buf = nil
}

// readArchive reads the documents in an office file or book (Office Open XML, OpenDocument,
// EPUB).
func readArchive(t *text, p []byte) Reason {
	r, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		return Cut
	}
	if len(r.File) > mostEntries {
		return TooLarge
	}
	var wanted []*zip.File
	for _, f := range r.File {
		switch name := entryName(f.Name); {
		case name == "encryptedpackage", name == "meta-inf/encryption.xml":
			return Encrypted
		case mayShow(name):
			wanted = append(wanted, f)
		}
	}
	if len(wanted) == 0 {
		return UnsupportedType
	}
	slices.SortStableFunc(wanted, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	left := t.body.lim.Decoded
	room := left // for nested archives
	why := AllRead
	for _, f := range wanted {
		if f.Flags&1 != 0 {
			return Encrypted
		}
		n, err := readEntry(t, f, min(left, mostEntry), &room)
		left -= n
		switch {
		case errors.Is(err, errCut):
			return TooLarge
		case errors.Is(err, zip.ErrAlgorithm):
			why = UnsupportedType
		case err != nil:
			why = Cut
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
		return ext == ".svg" || !isMedia(mime.TypeByExtension(ext))
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

func readEntry(t *text, f *zip.File, most int64, room *int64) (n int64, err error) {
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	h := memberHead(f.Name)
	office := path.Ext(entryName(f.Name)) == ".xml"
	if office {
		h = Describe("application/xhtml+xml; charset=utf-8", "")
	}
	var p part
	if !p.open(h, t) {
		return 0, nil
	}
	defer func() {
		if why := p.close(); why != AllRead && why != UnsupportedType {
			t.body.Stop(why)
		}
	}()
	p.room = room
	p.office = office && t.body.Type() != "application/epub+zip"
	var block [16 << 10]byte
	for {
		k, err := in.Read(block[:])
		if n += int64(k); n > most {
			return n, errCut
		}
		p.write(block[:k])
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// officeBreak are the elements of office documents that separate words; runs of text do not.
var officeBreak = elements("p br cr tab h line-break s c si row tr tc table-cell table-row list-item title subject description keywords creator")

// officeNamed are elements whose names are shown: on tabs and above columns.
var officeNamed = elements("sheet table tablecolumn definedname cachefield datafield page")

// officeAttribute returns the use of an attribute in an office document.
func officeAttribute(key, more uint64, name []byte) attrKind {
	switch string(name) {
	case "name":
		if !officeNamed[[2]uint64{key, more}] {
			return attrNone
		}
		return attrMore
	case "descr", "title", "tooltip", "screentip", "caption", "display", "prompt", "promptTitle":
		return attrMore
	}
	return attrNone
}

func elements(names string) map[[2]uint64]bool {
	m := map[[2]uint64]bool{}
	for _, name := range strings.Fields(names) {
		key, more := letters(name)
		m[[2]uint64{key, more}] = true
	}
	return m
}
