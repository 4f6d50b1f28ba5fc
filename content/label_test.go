package content_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

// TestDocumentsAreReadByWhatTheyAre: a document is read whatever its label says, by a browser that shows
// or saves it, by a program, and where nobody says for what.
func TestDocumentsAreReadByWhatTheyAre(t *testing.T) {
	pdf, err := os.ReadFile(filepath.Join("document", "testdata", "page.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	word := "casino"
	var b content.Body
	b.Reset(content.Describe("application/pdf", ""), content.Limits{})
	b.Append(pdf)
	b.Finish()
	text, _ := b.Text()
	inPDF := strings.Fields(string(text))[0]
	b.Release()
	for name, c := range map[string]struct {
		in, word string
	}{
		"PDF":              {string(pdf), inPDF},
		"RTF":              {`{\rtf1 some ` + word + ` here}`, word},
		"zip":              {reading.Archive(t, "a.txt", "some "+word), word},
		"office":           {reading.Archive(t, "[Content_Types].xml", "<Types/>", "word/document.xml", "<w:document><w:t>"+word+"</w:t></w:document>"), word},
		"gzip":             {string(webpage.Encode(t, "gzip", []byte("some "+word))), word},
		"tar":              {reading.Tar(t, "a.txt", "some "+word), word},
		"HTML":             {"<!DOCTYPE html><p>ca<b>si</b>no", word},
		"HTML, no doctype": {"<html><p>ca<b>si</b>no", word},
		"text":             {"some plain " + word + " words", word},
		"JSON":             {`{"a": "ca\u0073ino"}`, word},
		"XML":              {`<?xml version="1.0"?><a>` + word + `</a>`, word},
	} {
		for _, label := range []string{"application/octet-stream", "", "binary/octet-stream", "application/x-download", "application/pdf", "application/zip", "application/msword", "application/rtf", "image/png", "video/mp4", "application/x-unheard-of", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"} {
			for _, use := range []content.Use{content.Document, content.Program, content.Unsaid} {
				if name == "JSON" && (use == content.Document || label == "") {
					continue // shown as it is written
				}
				h := content.Describe(label, "")
				h.SetUse(use)
				if !h.Readable() {
					t.Errorf("%s as %q for %v is not wanted", name, label, use)
				}
				var b content.Body
				b.Reset(h, content.Limits{})
				b.Append([]byte(c.in))
				b.Finish()
				if text, err := b.Text(); err != nil || b.Unread() != content.AllRead || !strings.Contains(string(text), c.word) {
					t.Errorf("%s as %q for %v: %.80q, %v, unread %q", name, label, use, text, err, b.Unread())
				}
				b.Release()
			}
		}
	}
	// Where a page shows pictures, what is none shows nothing.
	for _, label := range []string{"image/png", "video/mp4"} {
		if h := content.Describe(label, ""); h.Readable() {
			t.Errorf("%q in a page is wanted", label)
		}
		h := content.Describe(label, "")
		h.SetUse(content.Document)
		var b content.Body
		b.Reset(h, content.Limits{})
		b.Append([]byte("\x89PNG\r\n\x1A\n\x00\x00 tEXt casino words casino words"))
		b.Finish()
		if text, _ := b.Text(); len(text) > 1 || !b.NothingToRead() {
			t.Errorf("a picture on its own: %.80q, want nothing", text)
		}
		b.Release()
	}
}
