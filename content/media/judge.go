package media

import (
	"bytes"

	"shuultuur/lib/ascii"
)

// XSLT is the namespace of transformations, without its scheme.
const XSLT = "www.w3.org/1999/XSL/Transform"

// HeadLen is the number of bytes by which a body is judged. A shorter head is all of its body.
const HeadLen = 1024

// Judge determines type and format of the body by its first bytes and its fields. scripts says that
// strings in scripts count as text.
func (h *Head) Judge(head []byte, scripts bool) (typ string, how Format) {
	switch typ = h.typ; {
	case typ == "" && h.nosniff:
		typ = "text/plain"
	case typ == "":
		typ = Sniff(head)
	case typ == "text/plain" && !h.nosniff && h.nCharset == 0:
		if IsBinary(head) {
			typ = Sniff(head)
		}
	}
	how = FormatOf(typ)
	switch {
	case how == Unread, how == None && h.Mislabelled():
		if how = FormatOf(Sniff(head)); how == Unread {
			how = Unlabelled(head)
		}
	case how == None && h.maybeDownloaded():
		how = FormatOf(Sniff(head))
		if IsBinary(head) && how < Members || how == Unread { // strings between the bytes of a program are no text
			how = None
		}
	case how == RTF && !IsRTF(head):
		if how = FormatOf(Sniff(head)); how == Unread || how == None {
			how = Plain
		}
	case how == PDF && bytes.Contains(head, []byte("%PDF-")):
	case how == Members && bytes.HasPrefix(head, []byte("#!")) && len(head) >= HeadLen: // the archive is behind the script
	case how >= Members && how < Unread && how != MIME && (how != CBOR || h.Mislabelled()) && len(head) > 0 && !IsBinary(head) && documentOf(head) == None:
		how = FormatOf(Sniff(head))
	case how >= Members && how < CBOR && documentOf(head) != None && !(how == Archive && bytes.HasPrefix(head, []byte("PK"))):
		how = documentOf(head)
	case how == MIME && h.nBoundary == 0 && bytes.HasPrefix([]byte(typ), []byte("multipart/")) && !BeginsFields(head):
		if how = Plain; h.findBoundary(head) {
			how = MIME
		}
	case (how == CSS || how == Script) && h.literal(how, head):
		how = Plain
	case how == Script && h.use == Unsaid && !scripts && !IsCallback(head):
		how = None
	}
	switch {
	case h.use == Sheet && how == XML && bytes.Contains(head, []byte(XSLT)): // browsers request it like any style sheet
	case h.use == Sheet:
		how = CSS
	case h.Mislabelled() && !IsPacked(typ):
		how = ProgramFormat(how, head)
	}
	return typ, how
}

// documentOf returns the format of a document or an archive whose signature a body has, None for
// others.
func documentOf(head []byte) Format {
	if how := FormatOf(signature(head, true)); how >= Members && how < Unread {
		return how
	}
	return None
}

// BeginsFields reports whether a body begins with fields that give its type, as web archives do
// (RFC 2557). These then apply instead of the message's own fields.
func BeginsFields(p []byte) bool {
	p = bytes.TrimLeft(p, "\r\n")
	for len(p) > 0 {
		var line []byte
		line, p = NextField(p)
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\"<") {
			return false
		}
		if ascii.EqualLower(name, "content-type") || ascii.EqualLower(name, "mime-version") {
			return true
		}
	}
	return false
}

// findBoundary uses the first line of a multipart body as its boundary, if the fields declare
// none.
func (h *Head) findBoundary(p []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(p, "\r\n"), []byte("\n"))
	line, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r \t"), []byte("--"))
	if !ok || len(line) == 0 || len(line) > len(h.boundary) {
		return false
	}
	h.nBoundary = uint8(copy(h.boundary[:], line))
	return true
}

// NextField returns the first field of b with its continuation lines, and the rest.
func NextField(b []byte) (line, rest []byte) {
	i := 0
	for {
		k := bytes.IndexByte(b[i:], '\n')
		if k < 0 {
			return b, nil
		}
		i += k + 1
		if i == len(b) || b[i] != ' ' && b[i] != '\t' {
			return b[:i], b[i:]
		}
	}
}
