package data

import (
	"bytes"
	"unicode/utf8"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// MostUnpacked is the number of bytes that are decompressed of a message.
const MostUnpacked = 1 << 20

// Unpercent decodes the URL escapes in s, if the result is text.
func Unpercent(s []byte) []byte {
	if bytes.IndexByte(s, '%') < 0 {
		return s
	}
	if out := coding.AppendUnpercented(nil, s); len(out) < len(s) && utf8.Valid(out) {
		return out
	}
	return s
}

// Unpack decompresses a binary message, or converts it from UTF-16.
func Unpack(p []byte) ([]byte, limit.Reason) {
	switch coding.ByMagic(p) {
	case coding.Gzip:
		return coding.Decode("gzip", p, MostUnpacked)
	case coding.Zstd:
		return coding.Decode("zstd", p, MostUnpacked)
	case coding.Deflate:
		if out, why := coding.Decode("deflate", p, MostUnpacked); why != limit.Cut { // two bytes do not prove that it is zlib
			return out, why
		}
	}
	if e := charset.GuessUTF16(p); e != nil && len(p)%2 == 0 {
		if out, err := e.NewDecoder().Bytes(p); err == nil {
			return out, limit.AllRead
		}
	}
	return p, limit.AllRead
}

// ShortBase64 is a length that cannot be distinguished from a word.
const ShortBase64 = 16

// TextOfBase64 decodes text from base64; it returns nil if s is not that.
func TextOfBase64(s []byte) []byte {
	s = bytes.TrimSpace(s)
	if len(s) < ShortBase64 {
		return nil
	}
	for _, c := range s {
		if !ascii.IsAlnum(c) && c != '+' && c != '/' && c != '-' && c != '_' && c != '=' {
			return nil
		}
	}
	out := coding.Unbase64(s)
	if coding.ByMagic(out) != coding.None {
		out, _ = Unpack(out)
	}
	if len(out) >= ShortBase64/2 && IsText(out) {
		return out
	}
	return nil
}
