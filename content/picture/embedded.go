package picture

import (
	"bytes"
	"encoding/base64"
	"net/url"
)

// minEmbedded is how many letters a picture in a data: URL has at least to be
// looked at: shorter ones are icons.
const minEmbedded = 2 << 10

// Embedded returns pictures that stand in a text in data: URLs (RFC 2397), most
// of them at most. What is not complete, or SVG, is left out.
func Embedded(text []byte, most int) (all [][]byte) {
	for len(all) < most {
		i := bytes.Index(text, []byte("data:image/"))
		if i < 0 {
			break
		}
		text = text[i+len("data:image/"):]
		comma := bytes.IndexByte(text[:min(len(text), 100)], ',')
		if comma < 0 || bytes.HasPrefix(text, []byte("svg")) {
			continue
		}
		head := text[:comma]
		text = text[comma+1:]
		end := bytes.IndexAny(text, "\"'()<> \t\r\n")
		if end < 0 {
			end = len(text)
		}
		data := text[:end]
		text = text[end:]
		if len(data) < minEmbedded || !bytes.HasSuffix(bytes.ToLower(head), []byte(";base64")) {
			continue
		}
		if bytes.IndexByte(data, '%') >= 0 {
			if s, err := url.PathUnescape(string(data)); err == nil {
				data = []byte(s)
			}
		}
		b := make([]byte, base64.RawStdEncoding.DecodedLen(len(data)))
		n, err := base64.RawStdEncoding.Decode(b, bytes.TrimRight(data, "="))
		if err == nil {
			all = append(all, b[:n])
		}
	}
	return all
}
