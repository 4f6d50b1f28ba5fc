package content

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// This file is about documents that can only be read when they are whole:
// archives of XML (office files, books) and PDF.

const (
	mostEntries = 2000
	mostEntry   = 32 << 20 // decoded bytes read of one entry
)

// A wholeReader keeps a document until its end.
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

// readArchive reads the documents of an office file or book (Office Open XML,
// OpenDocument, EPUB).
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
		switch isDocument(f.Name) {
		case true:
			wanted = append(wanted, f)
		case false:
			if f.Name == "EncryptedPackage" || f.Name == "META-INF/encryption.xml" {
				return Encrypted
			}
		}
	}
	slices.SortStableFunc(wanted, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	left := t.body.lim.Decoded
	for _, f := range wanted {
		if f.Flags&1 != 0 {
			return Encrypted
		}
		n, err := readEntry(t, f, min(left, mostEntry))
		left -= n
		switch {
		case errors.Is(err, errCut):
			return TooLarge
		case err != nil:
			return Cut
		}
	}
	if len(wanted) == 0 {
		return UnsupportedType
	}
	return AllRead
}

// isDocument says whether an entry of an archive is one that is shown.
func isDocument(name string) bool {
	dir, file := path.Split(strings.ToLower(name))
	ext := path.Ext(file)
	switch {
	case ext == ".html", ext == ".xhtml", ext == ".htm", ext == ".ncx", ext == ".opf":
		return true
	case ext != ".xml":
		return false
	case dir == "word/", dir == "ppt/slides/", dir == "ppt/notesslides/", dir == "ppt/comments/", dir == "xl/worksheets/", dir == "xl/", dir == "docprops/":
		return file != "styles.xml" && file != "settings.xml" && file != "fonttable.xml" && file != "websettings.xml"
	}
	return file == "content.xml" || file == "meta.xml"
}

func readEntry(t *text, f *zip.File, most int64) (n int64, err error) {
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	h := Describe("application/xhtml+xml; charset=utf-8", "")
	if ext := path.Ext(strings.ToLower(f.Name)); ext == ".html" || ext == ".htm" {
		h = Describe("text/html", "")
	}
	var p part
	if !p.open(h, t) {
		return 0, nil
	}
	defer p.close()
	p.office = h.typ != "text/html" && path.Ext(strings.ToLower(f.Name)) == ".xml"
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

// officeBreak are the elements of office documents that part words; runs of text
// do not.
var officeBreak = func() map[[2]uint64]bool {
	m := map[[2]uint64]bool{}
	for _, name := range strings.Fields("p br cr tab h line-break s c si row tr tc table-cell table-row list-item title subject description keywords creator") {
		key, more := letters(name)
		m[[2]uint64{key, more}] = true
	}
	return m
}()
