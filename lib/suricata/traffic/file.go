package traffic

import "strings"

// A File is a body, or part of a body, that is a file.
type File struct {
	Name     string
	Data     []byte
	Size     int64
	Complete bool
}

// Magic returns the type of the file as libmagic does, for the types that rules test most.
func (f *File) Magic() string {
	b := f.Data
	for _, m := range magics {
		if len(b) >= m.at+len(m.sig) && string(b[m.at:m.at+len(m.sig)]) == m.sig {
			return m.text
		}
	}
	if len(b) == 0 {
		return ""
	}
	for _, c := range b[:min(len(b), 512)] {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			return "data"
		}
		if c >= 0x80 {
			return "UTF-8 Unicode text"
		}
	}
	if low := strings.ToLower(string(b[:min(len(b), 512)])); strings.Contains(low, "<html") || strings.Contains(low, "<!doctype html") {
		return "HTML document, ASCII text"
	}
	return "ASCII text"
}

var magics = []struct {
	at        int
	sig, text string
}{
	{0, "MZ", "PE32 executable (GUI) Intel 80386, for MS Windows"}, {0, "\x7fELF", "ELF executable"},
	{0, "%PDF-", "PDF document"}, {0, "\x89PNG\r\n\x1a\n", "PNG image data"}, {0, "\xff\xd8\xff", "JPEG image data"},
	{0, "GIF87a", "GIF image data, version 87a"}, {0, "GIF89a", "GIF image data, version 89a"},
	{0, "PK\x03\x04", "Zip archive data"}, {0, "\x1f\x8b", "gzip compressed data"}, {0, "BZh", "bzip2 compressed data"},
	{0, "Rar!\x1a\x07", "RAR archive data"}, {0, "7z\xbc\xaf\x27\x1c", "7-zip archive data"},
	{0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Composite Document File V2 Document"}, {0, "\xca\xfe\xba\xbe", "compiled Java class data"},
	{0, "CWS", "Macromedia Flash data (compressed)"}, {0, "FWS", "Macromedia Flash data"}, {0, "{\\rtf", "Rich Text Format data"},
	{0, "#!/bin/sh", "POSIX shell script, ASCII text executable"}, {0, "#!/bin/bash", "Bourne-Again shell script, ASCII text executable"},
	{0, "\xfd7zXZ\x00", "XZ compressed data"}, {257, "ustar", "POSIX tar archive"}, {0, "RIFF", "RIFF (little-endian) data"},
	{0, "\x00\x00\x01\x00", "MS Windows icon resource"}, {0, "<?xml", "XML document text"}, {4, "ftyp", "ISO Media"},
	{0, "ID3", "Audio file with ID3"}, {0, "OggS", "Ogg data"}, {0, "X5O!P%@AP", "EICAR virus test files"},
}
