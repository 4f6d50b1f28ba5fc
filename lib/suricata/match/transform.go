package match

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/ascii"
	"shuultuur/lib/suricata/rule"
)

// maxUnpacked limits the output of gunzip and zlib_deflate.
const maxUnpacked = 1 << 20

// A Transform converts a buffer. If ok is false, the buffer stays unchanged.
type Transform func(in []byte) (out []byte, ok bool)

// NewTransform returns the function of a transform keyword. script returns that of a script,
// which the engine loads.
func NewTransform(t rule.Transform, script func(arg string) (Transform, error)) (Transform, error) {
	always := func(f func([]byte) []byte) (Transform, error) {
		return func(in []byte) ([]byte, bool) { return f(in), true }, nil
	}
	switch t.Name {
	case "dotprefix":
		return always(func(in []byte) []byte { return append([]byte{'.'}, in...) })
	case "to_lowercase", "casechange.lower":
		return always(Fold)
	case "to_uppercase":
		return always(func(in []byte) []byte { // letters of ASCII, as in C
			out := bytes.Clone(in)
			for i, c := range out {
				if c >= 'a' && c <= 'z' {
					out[i] -= 'a' - 'A'
				}
			}
			return out
		})
	case "url_decode":
		return always(urlDecode)
	case "strip_whitespace":
		return always(func(in []byte) []byte { return spaces(in, false) })
	case "compress_whitespace":
		return always(func(in []byte) []byte { return spaces(in, true) })
	case "header_lowercase":
		return always(lowerNames)
	case "strip_pseudo_headers":
		return always(stripPseudo)
	case "to_md5":
		return always(func(in []byte) []byte { s := md5.Sum(in); return s[:] })
	case "to_sha1":
		return always(func(in []byte) []byte { s := sha1.Sum(in); return s[:] })
	case "to_sha256":
		return always(func(in []byte) []byte { s := sha256.Sum256(in); return s[:] })
	case "domain":
		return func(in []byte) ([]byte, bool) {
			d, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(string(in)))
			return []byte(d), err == nil
		}, nil
	case "tld":
		return func(in []byte) ([]byte, bool) {
			d, _ := publicsuffix.PublicSuffix(strings.ToLower(string(in)))
			return []byte(d), d != ""
		}, nil
	case "gunzip", "zlib_deflate":
		return unpacker(t)
	case "xor":
		return newXOR(t.Arg)
	case "pcrexform":
		return newPart(t.Arg)
	case "from_base64":
		return newFromBase64(t.Arg)
	case "subslice":
		return newSubslice(t.Arg)
	case "luaxform":
		return script(t.Arg)
	}
	return nil, fmt.Errorf("the transform %q is not supported", t.Name)
}

// newPart makes the transform to the first group of an expression.
func newPart(expr string) (Transform, error) {
	re, err := rule.Compile(&rule.PCRE{Expr: expr})
	if err != nil {
		return nil, err
	}
	return func(in []byte) ([]byte, bool) {
		i := Inspector{buf: in}
		loc, ok := i.search(&Expression{Re: re}, 0, 0)
		if !ok {
			return GivenUp, false
		}
		if len(loc) < 4 || loc[2] < 0 {
			return in, false
		}
		return in[loc[2]:loc[3]], true
	}, nil
}

// GivenUp is returned, with false, by a transform that would have taken too long.
var GivenUp = []byte("given up")

// spaces removes white space, or with keep all but one of each run.
func spaces(in []byte, keep bool) []byte {
	out := make([]byte, 0, len(in))
	was := false
	for _, c := range in {
		if c == ' ' || c >= '\t' && c <= '\r' {
			if keep && !was {
				out = append(out, c)
			}
			was = true
			continue
		}
		was = false
		out = append(out, c)
	}
	return out
}

// urlDecode decodes %XX and turns + into a space.
func urlDecode(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case c == '+':
			out = append(out, ' ')
		case c == '%' && i+2 < len(in) && ascii.Unhex(in[i+1]) >= 0 && ascii.Unhex(in[i+2]) >= 0:
			out = append(out, byte(ascii.Unhex(in[i+1])<<4|ascii.Unhex(in[i+2])))
			i += 2
		default:
			out = append(out, c)
		}
	}
	return out
}

// lowerNames folds the names of header fields but not their values.
func lowerNames(in []byte) []byte {
	out := append([]byte(nil), in...)
	name := true
	for i, c := range out {
		switch {
		case c == '\n':
			name = true
		case c == ':' && i > 0:
			name = false
		case name:
			out[i] = lower[c]
		}
	}
	return out
}

// stripPseudo removes the lines of HTTP/2's pseudo-headers.
func stripPseudo(in []byte) []byte {
	var out []byte
	for len(in) > 0 {
		line := in
		if i := bytes.IndexByte(in, '\n'); i >= 0 {
			line = in[:i+1]
		}
		in = in[len(line):]
		if line[0] != ':' {
			out = append(out, line...)
		}
	}
	return out
}

// unpacker makes the transforms gunzip and zlib_deflate.
func unpacker(t rule.Transform) (Transform, error) {
	most := int64(1024)
	if f := strings.Fields(t.Arg); len(f) == 2 && f[0] == "max-size" {
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("max-size %q is not a number", f[1])
		}
		most = n
	} else if t.Arg != "" {
		return nil, fmt.Errorf("%q is not max-size N", t.Arg)
	}
	if most == 0 || most > maxUnpacked {
		most = maxUnpacked
	}
	return func(in []byte) ([]byte, bool) { // what cannot be unpacked is empty
		var r io.Reader
		var err error
		if t.Name == "gunzip" {
			r, err = gzip.NewReader(bytes.NewReader(in))
		} else if r, err = zlib.NewReader(bytes.NewReader(in)); err != nil {
			r, err = flate.NewReader(bytes.NewReader(in)), nil
		}
		if err != nil {
			return nil, true
		}
		out, _ := io.ReadAll(io.LimitReader(r, most+1))
		return out[:min(int64(len(out)), most)], true
	}, nil
}

// newXOR makes the transform xor. Its key is in hexadecimal, or in the buffer: "extract N
// FROM", applied from "offset N" on.
func newXOR(arg string) (Transform, error) {
	if key, err := hex.DecodeString(arg); err == nil && len(key) > 0 {
		return func(in []byte) ([]byte, bool) {
			out := make([]byte, len(in))
			for i := range in {
				out[i] = in[i] ^ key[i%len(key)]
			}
			return out, true
		}, nil
	}
	offset, size, from := 0, 0, -1
	for part := range strings.SplitSeq(arg, ",") {
		w := strings.Fields(part)
		nums := make([]int, len(w))
		for i, x := range w {
			if i > 0 {
				n, err := strconv.Atoi(x)
				if err != nil || n < 0 {
					return nil, fmt.Errorf("%q is not a number", x)
				}
				nums[i] = n
			}
		}
		switch {
		case len(w) == 2 && w[0] == "offset":
			offset = nums[1]
		case len(w) == 3 && w[0] == "extract" && nums[1] > 0 && nums[1] <= 4:
			size, from = nums[1], nums[2]
		default:
			return nil, fmt.Errorf("%q is neither a key in hexadecimal nor offset N, extract N FROM", arg)
		}
	}
	if from < 0 {
		return nil, fmt.Errorf("%q is neither a key in hexadecimal nor offset N, extract N FROM", arg)
	}
	return func(in []byte) ([]byte, bool) {
		if from+size > len(in) || offset > len(in) {
			return in, false
		}
		key := in[from : from+size]
		out := append([]byte(nil), in...)
		for i := offset; i < len(in); i++ {
			out[i] = in[i] ^ key[(i-offset)%size]
		}
		return out, true
	}, nil
}

// newFromBase64 makes the transform from_base64: bytes N, offset N, mode M.
func newFromBase64(arg string) (Transform, error) {
	size, offset, mode := 0, 0, "rfc4648"
	for part := range strings.SplitSeq(arg, ",") {
		w := strings.Fields(part)
		if len(w) == 0 {
			continue
		}
		if len(w) != 2 {
			return nil, fmt.Errorf("%q is not bytes N, offset N or mode M", part)
		}
		var err error
		switch w[0] {
		case "bytes":
			size, err = strconv.Atoi(w[1])
		case "offset":
			offset, err = strconv.Atoi(w[1])
		case "mode":
			if mode = w[1]; mode != "rfc4648" && mode != "rfc2045" && mode != "strict" {
				err = fmt.Errorf("%q is not rfc4648, rfc2045 or strict", mode)
			}
		default:
			err = fmt.Errorf("%q is not bytes, offset or mode", w[0])
		}
		if err != nil || size < 0 || offset < 0 {
			return nil, fmt.Errorf("%q: %v", part, err)
		}
	}
	return func(in []byte) ([]byte, bool) {
		if offset > 0 && offset >= len(in) {
			return in, false
		}
		raw := in[offset:]
		if size > 0 {
			if size >= len(raw) {
				return in, false
			}
			raw = raw[:size]
		}
		var out []byte
		switch mode {
		case "strict":
			var err error
			if out, err = base64.StdEncoding.Strict().DecodeString(string(raw)); err != nil {
				return nil, false
			}
		case "rfc2045":
			out = decodeBase64(raw, true)
		default:
			out = decodeBase64(raw, false)
		}
		if len(out) == 0 { // there is nothing to inspect
			return nil, false
		}
		return out, true
	}, nil
}

// newSubslice makes the transform subslice: OFFSET, LENGTH, truncate; negative numbers count
// from the end. Without truncate, a part that is not all there is empty.
func newSubslice(arg string) (Transform, error) {
	var nums []int
	truncate := false
	for part := range strings.SplitSeq(arg, ",") {
		part = strings.TrimSpace(part)
		if len(nums) > 0 && !truncate && strings.EqualFold(part, "truncate") {
			truncate = true
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil || len(nums) == 2 || truncate || len(nums) == 1 && n == 0 {
			return nil, fmt.Errorf("%q is not OFFSET, LENGTH, truncate", arg)
		}
		nums = append(nums, n)
	}
	if len(nums) == 0 {
		return nil, fmt.Errorf("%q is not OFFSET, LENGTH, truncate", arg)
	}
	return func(in []byte) ([]byte, bool) {
		from, to := nums[0], len(in)
		if from < 0 {
			from += len(in)
		}
		if len(nums) == 2 {
			if to = from + nums[1]; nums[1] < 0 {
				to = len(in) + nums[1]
			}
			if truncate && from < 0 && nums[1] > 0 {
				to = nums[1]
			}
		}
		if !truncate && (from < 0 || from > len(in) || to < 0 || to > len(in)) {
			return nil, true
		}
		from, to = max(0, min(from, len(in))), max(0, min(to, len(in)))
		return in[min(from, to):max(from, to)], true
	}, nil
}
