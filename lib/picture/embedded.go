package picture

import (
	"bytes"
	"encoding/base64"
	"strconv"
)

const (
	// minEmbedded is the least number of letters of a picture in a data: URL that is judged:
	// shorter ones are icons.
	minEmbedded = 2 << 10
	maxMedia    = 200 // letters before the comma in a data: URL
	maxNested   = 4   // depth of texts in data: URLs within one another

	maxReference = 10 // letters in a character reference
)

// Embedded returns the pictures in the data: URLs (RFC 2397) of a text, at most most, whatever
// type they declare. It also searches texts in such URLs, such as an SVG or a frame. Of
// malformed base64, the bytes before the mistake count.
func Embedded(text []byte, most int) [][]byte { return embedded(text, most, maxNested) }

func embedded(text []byte, most, depth int) (all [][]byte) {
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
		base := bytes.HasSuffix(bytes.TrimSpace(media), []byte("base64"))
		data := valueOf(text[comma+1:], quote, base)
		if len(data) < minEmbedded {
			continue
		}
		text = text[comma+1+len(data):]
		b := decodeData(data, base)
		switch head, _ := Look(b); {
		case head.Format != NotAPicture:
			all = append(all, b)
		case depth > 0:
			all = append(all, embedded(b, most-len(all), depth-1)...)
		}
	}
	return all
}

// valueOf returns the part of text that belongs to a URL after quote, which may be another
// byte. A comma ends base64: in srcset, the next picture follows it.
func valueOf(text []byte, quote byte, base bool) []byte {
	ends := "\"'()<> \t\r\n"
	if quote == '"' || quote == '\'' {
		ends = string(quote)
	}
	if base {
		ends += ","
	}
	if end := bytes.IndexAny(text, ends); end >= 0 {
		return text[:end]
	}
	return text
}

// decodeData decodes the data of a URL as browsers do: it ignores white space, and padding may
// be missing. Base64 ends at any other byte, such as the blank before a width in srcset.
func decodeData(data []byte, base bool) []byte {
	data = unescape(data)
	if !base {
		return data
	}
	data = bytes.Join(bytes.Fields(data), nil)
	if end := bytes.IndexByte(data, '='); end >= 0 {
		data = data[:end]
	}
	b := make([]byte, base64.RawStdEncoding.DecodedLen(len(data)))
	n, _ := base64.RawStdEncoding.Decode(b, data) // n bytes precede an error
	return b[:n]
}

// references are the characters in base64 that have names in HTML, and quotes.
var references = map[string]byte{"plus": '+', "sol": '/', "equals": '=', "quot": '"', "apos": '\'', "amp": '&', "lt": '<', "gt": '>', "Tab": '\t', "NewLine": '\n'}

// unescape decodes escapes of ASCII characters in a data: URL, as written by HTML, scripts and
// URLs: character references, backslashes and percent signs.
func unescape(data []byte) []byte {
	if bytes.IndexAny(data, "&\\%") < 0 {
		return data
	}
	b := make([]byte, 0, len(data))
	number := func(digits []byte, base int) bool {
		n, err := strconv.ParseUint(string(digits), base, 8)
		if err == nil {
			b = append(b, byte(n))
		}
		return err == nil
	}
	for i := 0; i < len(data); i++ {
		rest := data[i+1:]
		switch c := data[i]; c {
		case '%':
			if len(rest) >= 2 && number(rest[:2], 16) {
				i += 2
				continue
			}
		case '\\':
			switch {
			case len(rest) >= 5 && rest[0] == 'u' && number(rest[1:5], 16):
				i += 5
			case len(rest) >= 3 && rest[0] == 'x' && number(rest[1:3], 16):
				i += 3
			}
			continue // \/ stands for a slash
		case '&':
			end := bytes.IndexByte(rest[:min(len(rest), maxReference)], ';')
			if end < 0 {
				break
			}
			name, known := rest[:end], false
			switch {
			case bytes.HasPrefix(name, []byte("#x")), bytes.HasPrefix(name, []byte("#X")):
				known = number(name[2:], 16)
			case bytes.HasPrefix(name, []byte("#")):
				known = number(name[1:], 10)
			default:
				var r byte
				if r, known = references[string(name)]; known {
					b = append(b, r)
				}
			}
			if known {
				i += 1 + end
				continue
			}
		}
		b = append(b, data[i])
	}
	return b
}
