package exchange

import (
	"io"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/page"
)

// maxForm is the greatest form that is kept to be sent again, in bytes.
const maxForm = 16 << 10

// A keptForm is the body of a request with a form from a browser. It remembers what was read, so that
// a warning can offer to send the form again.
type keptForm struct {
	message.Body
	mu   sync.Mutex // the body may be sent in another goroutine
	kept []byte
	size int64
}

// keepForm makes the body of q remember the form that a browser sends. Others cannot send it again from
// a page. It returns nil for other requests.
func keepForm(q *message.Request, t *filter.Transaction) *keptForm {
	if q.Method != "POST" || q.Body == nil || q.Length <= 0 || q.Length > maxForm || t.Sent().Type() != "application/x-www-form-urlencoded" || page.FormOf(q) != page.Document {
		return nil
	}
	f := &keptForm{Body: q.Body, size: q.Length}
	q.Body = f
	return f
}

// fields returns the fields of the form, nil if it is not known or cannot be written in a page.
func (f *keptForm) fields() (fields []page.Field) {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(len(f.kept)) != f.size {
		return nil
	}
	for part := range strings.SplitSeq(string(f.kept), "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		value, failed := url.QueryUnescape(value)
		if err != nil || failed != nil || !utf8.ValidString(name) || !utf8.ValidString(value) || strings.ContainsRune(name+value, 0) || strings.EqualFold(name, "_charset_") {
			return nil
		}
		fields = append(fields, page.Field{Name: name, Value: value})
	}
	return fields
}

// Write remembers bytes of the form.
func (f *keptForm) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, p...)
	return len(p), nil
}

// Read implements [message.Body].
func (f *keptForm) Read(p []byte) (int, error) {
	n, err := f.Body.Read(p)
	_, _ = f.Write(p[:n])
	return n, err
}

// Skip implements [message.Body].
func (f *keptForm) Skip(n int) {
	left := n
	for _, p := range f.Body.Ready(nil) {
		p = p[:min(left, len(p))]
		_, _ = f.Write(p)
		left -= len(p)
	}
	f.Body.Skip(n)
}

// Copy implements [message.Body].
func (f *keptForm) Copy(w io.Writer, max int64) (int64, error) {
	return f.Body.Copy(io.MultiWriter(f, w), max)
}
