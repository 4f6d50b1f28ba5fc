package picture

import (
	"bytes"
	"encoding/base64"
	"net/url"
)

const (
	// minEmbedded is how many letters a picture in a data: URL has at least to be
	// looked at: shorter ones are icons.
	minEmbedded = 2 << 10
	maxMedia    = 200 // letters before the comma of a data: URL
)

// Embedded returns pictures that stand in a text in data: URLs (RFC 2397), most
// of them at most, whatever type they claim to have; also those in an SVG that
// stands in such a URL itself. What is not complete is left out.
func Embedded(text []byte, most int) [][]byte { return embedded(text, most, true) }

func embedded(text []byte, most int, nested bool) (all [][]byte) {
	for len(all) < most {
		i := bytes.IndexByte(text, ':')
		if i < 0 {
			break
		}
		here := i >= 4 && bytes.EqualFold(text[i-4:i], []byte("data"))
		quote := byte(0)
		if here && i > 4 {
			quote = text[i-5]
		}
		text = text[i+1:]
		if !here {
			continue
		}
		comma := bytes.IndexByte(text[:min(len(text), maxMedia)], ',')
		if comma < 0 {
			continue
		}
		media := bytes.ToLower(text[:comma])
		data := valueOf(text[comma+1:], quote)
		if len(data) < minEmbedded {
			continue
		}
		text = text[comma+1+len(data):]
		b := decodeData(data, bytes.HasSuffix(bytes.TrimSpace(media), []byte("base64")))
		switch head, _ := Look(b); {
		case head.Format != NotAPicture:
			all = append(all, b)
		case nested && bytes.Contains(media, []byte("svg")):
			all = append(all, embedded(b, most-len(all), false)...)
		}
	}
	return all
}

// valueOf is the part of text that belongs to a URL after a quote, or after
// something else.
func valueOf(text []byte, quote byte) []byte {
	ends := "\"'()<> \t\r\n"
	if quote == '"' || quote == '\'' {
		ends = string(quote)
	}
	if end := bytes.IndexAny(text, ends); end >= 0 {
		return text[:end]
	}
	return text
}

// decodeData decodes the data of a URL as browsers do: white space is left out,
// and what pads it may be missing.
func decodeData(data []byte, base bool) []byte {
	if bytes.IndexByte(data, '%') >= 0 {
		if s, err := url.PathUnescape(string(data)); err == nil {
			data = []byte(s)
		}
	}
	if !base {
		return data
	}
	data = bytes.Join(bytes.Fields(data), nil)
	b := make([]byte, base64.RawStdEncoding.DecodedLen(len(data)))
	n, err := base64.RawStdEncoding.Decode(b, bytes.TrimRight(data, "="))
	if err != nil {
		return nil
	}
	return b[:n]
}
