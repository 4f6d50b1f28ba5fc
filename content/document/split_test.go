package document

import (
	"bytes"
	"fmt"
	"testing"

	"shuultuur/content/media"
)

// A partNotes records the parts that a [Multipart] reports.
type partNotes struct{ b bytes.Buffer }

func (n *partNotes) Begin(fields []byte) { fmt.Fprintf(&n.b, "[%q:", fields) }
func (n *partNotes) Between()            { n.b.WriteString("<") }
func (n *partNotes) Take(p []byte)       { n.b.Write(p) }
func (n *partNotes) End()                { n.b.WriteString("]") }

// FuzzMultipart: the same parts are found however the body is divided, and little of it is
// kept.
func FuzzMultipart(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; filename=x\r\n\r\nevil\r\n--b--\r\nend", "form-data", 3)
	f.Add("\n--b\nContent-Type: x\n\n\n--bb\n--b \n\n\r", "mixed", 1)
	f.Add("--b\r\nContent-Type: image/png\r\n\r\nx\r\n--b", "x-mixed-replace", 2)
	f.Fuzz(func(t *testing.T, body, typ string, size int) {
		read := func(size int) string {
			var notes partNotes
			m := NewMultipart(media.Describe("multipart/"+typ+"; boundary=b", ""), &notes)
			if m == nil {
				return ""
			}
			for rest := body; rest != ""; {
				k := min(size, len(rest))
				m.Write([]byte(rest[:k]))
				if rest = rest[k:]; len(m.buf) > mostFields {
					t.Fatalf("the splitter keeps %d bytes, more than its limit", len(m.buf))
				}
			}
			m.Finish()
			return notes.b.String()
		}
		if pieces, whole := read(max(1, size)), read(len(body)+1); pieces != whole {
			t.Errorf("in pieces the parts are %q, in one piece %q", pieces, whole)
		}
	})
}
