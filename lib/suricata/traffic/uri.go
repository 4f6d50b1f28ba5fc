package traffic

import (
	"bytes"

	"shuultuur/lib/ascii"
)

// NormalURI returns the target as in http.uri: without scheme and host, decoded once, with
// slashes instead of backslashes, and without repeated slashes and dot segments in the path.
func NormalURI(target []byte) []byte {
	if i := bytes.Index(target, []byte("://")); i > 0 && bytes.IndexAny(target[:i], "/?#") < 0 {
		rest := target[i+3:]
		end := bytes.IndexAny(rest, "/?#")
		if end < 0 {
			return []byte{}
		}
		target = rest[end:]
	}
	path, tail := target, []byte(nil)
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		path, tail = target[:i], target[i:]
	}
	out := normalPath(decodePath(path))
	if len(tail) > 0 {
		out = append(out, decodeQuery(tail)...)
	}
	return out
}

// decodePath decodes %XX and %uXXXX, and replaces backslashes by slashes.
func decodePath(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c, n := decodeOne(p[i:])
		i += n - 1
		if c == '\\' {
			c = '/'
		}
		if c == '/' && len(out) > 0 && out[len(out)-1] == '/' {
			continue
		}
		out = append(out, c)
	}
	return out
}

func decodeQuery(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c, n := decodeOne(p[i:])
		i += n - 1
		out = append(out, c)
	}
	return out
}

// decodeOne decodes the escape at the beginning of p and returns its length. Anything else
// stays unchanged.
func decodeOne(p []byte) (c byte, n int) {
	if p[0] != '%' {
		return p[0], 1
	}
	if len(p) >= 6 && (p[1] == 'u' || p[1] == 'U') && ascii.Unhex(p[2]) >= 0 && ascii.Unhex(p[3]) >= 0 && ascii.Unhex(p[4]) >= 0 && ascii.Unhex(p[5]) >= 0 {
		hi, lo := ascii.Unhex(p[2])<<4|ascii.Unhex(p[3]), ascii.Unhex(p[4])<<4|ascii.Unhex(p[5])
		return bestFit(byte(hi), byte(lo)), 6
	}
	if len(p) >= 3 && ascii.Unhex(p[1]) >= 0 && ascii.Unhex(p[2]) >= 0 {
		return byte(ascii.Unhex(p[1])<<4 | ascii.Unhex(p[2])), 3
	}
	return '%', 1
}

// bestFit returns the byte that servers substitute for a character beyond one byte.
func bestFit(hi, lo byte) byte {
	switch {
	case hi == 0:
		return lo
	case hi == 0xff && lo >= 0x01 && lo <= 0x5e: // full-width forms
		return lo + 0x20
	case hi == 0x22 && lo == 0x15, hi == 0x20 && lo == 0x44:
		return '/'
	case hi == 0x22 && lo == 0x16:
		return '\\'
	}
	return '?'
}

// normalPath resolves dot segments.
func normalPath(p []byte) []byte {
	if !bytes.Contains(p, []byte("./")) && !bytes.HasSuffix(p, []byte("/.")) && !bytes.HasSuffix(p, []byte("/..")) {
		return p
	}
	out := make([]byte, 0, len(p))
	for len(p) > 0 {
		switch {
		case bytes.HasPrefix(p, []byte("../")):
			p = p[3:]
		case bytes.HasPrefix(p, []byte("./")):
			p = p[2:]
		case bytes.HasPrefix(p, []byte("/./")):
			p = p[2:]
		case string(p) == "/.":
			p = []byte("/")
		case bytes.HasPrefix(p, []byte("/../")):
			p = p[3:]
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		case string(p) == "/..":
			p = []byte("/")
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		case string(p) == "." || string(p) == "..":
			p = nil
		default:
			i := bytes.IndexByte(p[1:], '/') + 1
			if i == 0 {
				i = len(p)
			}
			out = append(out, p[:i]...)
			p = p[i:]
		}
	}
	return out
}

// authority returns the host and port of a target in absolute form.
func authority(target []byte) []byte {
	i := bytes.Index(target, []byte("://"))
	if i <= 0 || bytes.IndexAny(target[:i], "/?#") >= 0 {
		return nil
	}
	rest := target[i+3:]
	if end := bytes.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if at := bytes.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return rest
}

// HostOf removes the port from a host and folds it.
func HostOf(v []byte) []byte {
	v = bytes.TrimSpace(v)
	if len(v) > 0 && v[0] == '[' {
		if end := bytes.IndexByte(v, ']'); end > 0 {
			return lowerCase(v[:end+1])
		}
	}
	if i := bytes.IndexByte(v, ':'); i >= 0 {
		v = v[:i]
	}
	return lowerCase(bytes.TrimSuffix(v, []byte(".")))
}

func lowerCase(v []byte) []byte { return ascii.AppendLower(make([]byte, 0, len(v)), v) }
