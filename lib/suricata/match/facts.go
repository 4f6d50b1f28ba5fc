package match

import "shuultuur/lib/suricata/rule"

// Facts are the knowledge of prefilters about a buffer.
type Facts struct {
	Contents []Sought
	Body     *Sight    // nil if the beginning is all
	Head     *Sight    // of the beginning of the stream; nil for a body
	Shift    int       // where the body begins in the buffer
	cursors  [4]cursor // in the body, by content
}

// Lacks reports whether some content is not in the buffer.
func (k *Facts) Lacks() bool {
	for i := range k.Contents {
		x := &k.Contents[i]
		if (k.Body == nil || k.Body.counts[x.Pat] == 0) && (k.Head == nil || k.Head.counts[x.Raw] == 0) {
			return true
		}
	}
	return false
}

// next returns the first position of content number n between from and to, or -1. ok is false
// if not all positions are known.
func (k *Facts) next(n, from, to int) (at int, ok bool) {
	x := &k.Contents[n]
	at, ok = -1, true
	if k.Body != nil {
		if at, ok = k.Body.next(x.Pat, x.Content, from-k.Shift, to-k.Shift, &k.cursors[n%len(k.cursors)]); at >= 0 {
			at += k.Shift
		}
	}
	if k.Head != nil && ok {
		first := 0
		if first, ok = k.Head.next(x.Raw, x.Content, from, to, new(cursor)); first >= 0 && (at < 0 || first < at) {
			at = first
		}
	}
	return at, ok
}

// find returns the first position of a content between from and to, or -1.
func (in *Inspector) find(c *rule.Content, from, to int) int {
	if to-from >= shortBuffer {
		for i := range in.known.Contents {
			if in.known.Contents[i].Content != c {
				continue
			}
			if at, ok := in.known.next(i, from, to); ok {
				return at
			}
			break
		}
	}
	i := Find(in.buf[from:to], c)
	if i < 0 {
		in.Work += (to - from) / searchBytes
		return i
	}
	in.Work += i / searchBytes
	return from + i
}

// A Sought is a content of a group that a prefilter searches for.
type Sought struct {
	Content *rule.Content
	Pat     int32 // number among the patterns of bodies
	Raw     int32 // number among those of content outside any buffer, for a group on that
}
